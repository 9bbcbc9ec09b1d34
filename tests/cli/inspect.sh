#!/bin/sh
# inspect: what is in a model, on one screen, and all of it as JSON.
. "$(dirname "$0")/lib.sh"

test_inputs_and_outputs_have_types_and_shapes() {
  quietly inspect "$digits/digits.onnx"
  matches out '^inputs +image +float +\[N, 1, 8, 8\]$'
  matches out '^outputs +logits +float +\[N, 10\]$'
  quietly inspect "$digits/digits.onnx" --json
  matches out '"name": "image", "type": "float", "shape": \["N", 1, 8, 8\]'
  matches out '"name": "probabilities", "type": "float", "shape": \["N", 10\]'
}

test_head_names_producer_versions_and_opsets() {
  quietly inspect "$digits/digits.onnx"
  matches out '^model +.*digits.onnx: 18 nodes, [0-9.]+ KiB$'
  matches out '^written by +.+, IR version [0-9]+$'
  matches out '^opsets +ai.onnx [0-9]+'
  matches out '^operators +[0-9]+ [A-Z][A-Za-z]+, [0-9]+ '
  lacks out 'odd '
}

test_parameters_are_told_by_type_with_their_bytes() {
  quietly inspect "$tiny/shape_math.onnx"
  matches out '^parameters +[0-9]+ (float|int64) in [0-9]+ tensors? \([0-9.]+ [KM]?i?B\)'
  quietly convert "$digits/digits.onnx" --data "$digits/samples" -o y.onnx
  quietly inspect y.onnx
  matches out '^parameters .*float16 in'
  has out 'converted    by narrowcast' 'policy fp16 version 1' 'values: float16 or bfloat16 already'
}

test_external_data_is_told_with_its_files() {
  quietly inspect "$tiny/external.onnx"
  matches out '^external +data of [0-9]+ tensors?, external.data \([0-9]+ B\)$'
  quietly inspect "$tiny/external.onnx" --json
  matches out '"location": "external.data", "bytes": [1-9]'
}

test_functions_and_subgraphs_are_counted() {
  quietly inspect "$tiny/functions.onnx"
  matches out '^functions +narrowcast.models.SquareMean: 2 nodes, called 1 time$'
  matches out '^ +narrowcast.models.Normalise: 5 nodes, called 2 times$'
  matches out '^nodes +[0-9]+ in the main graph, 7 in 2 local functions$'
  quietly inspect "$tiny/if_loop.onnx"
  matches out '^nodes +[0-9]+ in the main graph, [0-9]+ in [0-9]+ subgraphs'
}

test_what_is_odd_is_said_with_an_example() {
  quietly inspect "$tiny/unsorted.onnx"
  has out 'odd          1 graph: with nodes before what they read'
  quietly inspect "$tiny/quantised.onnx"
  matches out '[0-9]+ nodes: quantised, kept as it is \(the first is .+\)$'
  quietly inspect "$tiny/duplicate_node_names.onnx" --json
  matches out '"id": "unnamed", "count": 2'
}

test_what_has_no_room_is_in_the_json() {
  /usr/bin/python3 - <<'END'
import onnx
from onnx import helper, TensorProto
names = ["input\x1b[31m_%02d" % i for i in range(40)]
values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None, "n"]) for n in names]
nodes = [helper.make_node("Sum", names, ["y"], "sum")]
out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
graph = helper.make_graph(nodes, "g", values, [out])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
          "many.onnx")
END
  quietly inspect many.onnx
  [ "$(wc -l <out)" -lt 40 ]
  has out 'and 28 more: --json lists all' 'shape not declared' '[?, n]' 'input?[31m_00'
  lacks out "$(printf '\033')"
  quietly inspect many.onnx --json
  cp out all.json
  is_json all.json
  [ "$(grep -c '"shape": \["", "n"\]' all.json)" -eq 40 ]
}

run_tests
