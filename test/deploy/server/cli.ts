// The command line of `svc deploy` for servers, in a process of its own: node child.js <words>
import { run } from "../../../src/cli/deploy/main.ts";
import platform from "../../../src/plugins/platforms/server/platform.ts";

const argv = process.argv.slice(2);
process.exitCode = await run(argv, {
  argv: ["deploy", ...argv],
  self: [],
  cwd: process.cwd(),
  env: process.env,
  interactive: false,
  print: (line) => console.log(line),
  note: (line) => console.error(line),
  platforms: { server: async () => ({ default: platform as never }) },
});
