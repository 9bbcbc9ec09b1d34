// Prints tests as tests/run counts them: PASS or FAIL and the name, which is the rule.
export default async function* reporter(source) {
  for await (const { type, data } of source) {
    if (type === "test:pass") yield data.skip ? `SKIP ${data.name}: ${data.skip}\n` : `PASS ${data.name}\n`;
    if (type === "test:fail") {
      const error = data.details.error.cause ?? data.details.error;
      yield `FAIL ${data.name}\n${String(error?.stack ?? error).replace(/^/gm, "  ")}\n`;
    }
  }
}
