// The commands of the program: parser, help, manual pages and completions come from this table, and
// from that of the options (cmd_options.c). What an argument is called says what completes it: see
// docs/completion.c.
#include "cmd.h"

enum { BATCH_ARGUMENTS = 1000000 };

#define BIT(option) (UINT64_C(1) << OPTION_##option)
// Which samples; how a policy is chosen and adjusted; how ONNX Runtime runs.
#define DATA_OPTIONS (BIT(DATA) | BIT(RANDOM) | BIT(SAMPLES))
#define DECISION_OPTIONS                                                                           \
  (BIT(POLICY) | BIT(FORMAT) | BIT(RAISE_OPSET) | BIT(KEEP) | BIT(NARROW) | BIT(OVERRIDES) |       \
   BIT(IO))
#define ENGINE_OPTIONS                                                                             \
  (BIT(ENGINE) | BIT(THREADS) | BIT(TIMEOUT) | BIT(MEMORY_LIMIT) | BIT(IN_PROCESS))

const struct command commands[] = {
    {"convert", "MODEL", NULL, 1, 1, "traces, plans, rewrites, verifies and saves, in one go",
     "Without --data the inputs are made up, and the summary says so. The model is written only "
     "if\n"
     "every claim of the policy holds; exit code 1 says that one does not.",
     DATA_OPTIONS | DECISION_OPTIONS | ENGINE_OPTIONS | BIT(TRACE) | BIT(OUTPUT) |
         BIT(EXTERNAL_DATA) | BIT(SAVE_PLAN) | BIT(SAVE_TRACE) | BIT(SAVE_VERDICT) | BIT(REPORT) |
         BIT(SAVE_ANYWAY) | BIT(MODEL_LIMIT) | BIT(JSON) | BIT(QUIET),
     0, false, "beside MODEL, named after the policy", command_convert},
    {"inspect", "MODEL", NULL, 1, 1, "tells what is in a model",
     "Inputs and outputs with their shapes, opsets, operators, functions, parameters by type, "
     "external\n"
     "data, and what is odd. --json lists all; a dimension that has neither size nor name is \"\" "
     "there.\n"
     "Needs neither data nor ONNX Runtime.",
     BIT(MODEL_LIMIT) | BIT(JSON), 0, false, NULL, command_inspect},
    {"trace", "MODEL", NULL, 1, 1, "runs the model over samples and writes per-tensor statistics",
     "Held-out samples (see the policy) are left for verify. Updates of a training's weights are\n"
     "measured with --checkpoints FILE FILE ..., which stands behind MODEL (samples are then run\n"
     "only if --data or --random says so), or with --feedback, where MODEL is a training step.",
     DATA_OPTIONS | ENGINE_OPTIONS | BIT(POLICY) | BIT(CHECKPOINTS) | BIT(FEEDBACK) | BIT(STEPS) |
         BIT(OUTPUT) | BIT(RAISE_OPSET) | BIT(MODEL_LIMIT) | BIT(JSON) | BIT(QUIET),
     0, true, "MODEL.trace.json", command_trace},
    {"plan", "MODEL", NULL, 1, 1, "decides a format for every tensor and writes the plan",
     "With --trace, statistics come from a trace file, else there are none: then only constants\n"
     "are known, and every other tensor counts as not seen and stays fp32.",
     DECISION_OPTIONS | BIT(TRACE) | BIT(OUTPUT) | BIT(MODEL_LIMIT) | BIT(JSON) | BIT(QUIET), 0,
     true, "MODEL.plan.json", command_plan},
    {"rewrite", "MODEL", "--plan FILE", 1, 1, "applies a plan, also one edited by hand",
     "Needs neither data nor ONNX Runtime. The result is not verified. Every edit that cannot be\n"
     "applied is named with its reason; --check stops there and writes nothing.",
     BIT(PLAN) | BIT(OUTPUT) | BIT(EXTERNAL_DATA) | BIT(CHECK) | BIT(MODEL_LIMIT) | BIT(JSON) |
         BIT(QUIET),
     BIT(PLAN), false, "beside MODEL, named after the policy", command_rewrite},
    {"verify", "MODEL", "--plan FILE", 1, 1,
     "runs the narrow model emulated beside the fp32 one and judges the claims",
     "MODEL is the source; the plan says what the narrow one is. If the samples are those "
     "that\n"
     "the plan was made from, the held-out ones are used, else all of them. With -o the verdict "
     "is\n"
     "written to a file too, with the error of every tensor.",
     DATA_OPTIONS | ENGINE_OPTIONS | BIT(PLAN) | BIT(OUTPUT) | BIT(MODEL_LIMIT) | BIT(JSON) |
         BIT(QUIET),
     BIT(PLAN), true, NULL, command_verify},
    {"report", "PLAN", NULL, 1, 1, "writes a page on which a plan can be reviewed",
     "Needs neither model nor data nor ONNX Runtime. With --trace and --verdict it shows what was\n"
     "measured, too; they must be of this plan. The page is one file and asks for no network.",
     BIT(TRACE) | BIT(VERDICT) | BIT(OUTPUT) | BIT(REPORT_FORM) | BIT(QUIET), 0, true, "PLAN.html",
     command_report},
    {"explain", "PLAN [NAME]", "[--why-not FORMAT]", 1, 2, "tells why a plan decides as it does",
     "NAME is a node, a tensor or a glob: prints rule, numbers beside thresholds, neighbours, "
     "modelled\n"
     "time, and what would have to change. --why-not FORMAT ranks what keeps nodes out of a "
     "format.\n"
     "Needs the plan file alone; --trace and --verdict add what they measured.",
     BIT(TRACE) | BIT(VERDICT) | BIT(WHY_NOT) | BIT(QUIET), 0, false, NULL, command_explain},
    {"diff", "PLAN PLAN", NULL, 2, 2, "compares what two plans decide",
     "Nodes and tensors whose format or scale differs, with the reasons, and the totals. Exit "
     "code\n"
     "0 if they decide the same, 1 if not.",
     BIT(JSON) | BIT(QUIET), 0, false, NULL, command_diff},
    {"emit", "PLAN", "--for TOOL -o FILE", 1, 1, "writes a plan in another tool's form",
     "--for tensorrt: arguments of trtexec for the source model, one a line, as\n"
     "`xargs -d '\\n' -a FILE trtexec --onnx=MODEL` takes them. --for onnxruntime: the ranges of\n"
     "--trace as calibration.json of its quantization tools.",
     BIT(TRACE) | BIT(TOOL) | BIT(OUTPUT) | BIT(QUIET), BIT(TOOL) | BIT(OUTPUT), true, NULL,
     command_emit},
    {"batch", "DIR|LIST | merge OUT...", "--out DIR", 1, BATCH_ARGUMENTS,
     "converts every model of a folder or list, in parallel",
     "Each model is converted by a process of its own, with its own folder in --out. The same\n"
     "command goes on where it was stopped. LIST is JSON Lines: {\"model\": PATH, \"samples\": "
     "PATH,\n"
     "...}; there policy, format, io, raise_opset and overrides are a model's own, before those\n"
     "given here, and keep and narrow are added to them. merge joins what several shards made.",
     DECISION_OPTIONS | BIT(RANDOM) | BIT(SAMPLES) | BIT(OUT) | BIT(EXTERNAL_DATA) | BIT(JOBS) |
         BIT(SHARD) | BIT(ENGINE) | BIT(BATCH_THREADS) | BIT(TIMEOUT) | BIT(MEMORY_LIMIT) |
         BIT(MODEL_LIMIT) | BIT(JSON) | BIT(QUIET),
     BIT(OUT), false, NULL, command_batch},
    {"policy", "check FILE | show POLICY | list", NULL, 1, 2, "checks or shows a policy",
     "check FILE reads a policy file and names what is wrong with it; show POLICY prints a "
     "shipped\n"
     "policy, to be copied and changed; list names the shipped ones.",
     0, 0, false, NULL, command_policy},
    {"formats", "", NULL, 0, 0, "prints the table of number formats",
     "Bits, range and steps of each, as plans use them.", BIT(JSON), 0, false, NULL,
     command_formats},
    {0},
};
_Static_assert(sizeof commands / sizeof commands[0] <= COMMANDS_MOST, "room for the end mark");
