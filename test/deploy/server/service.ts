// A service in one file, for an image that needs no installation. SICK keeps it from becoming healthy, and so does the job that
// REFUSES names.
import * as v from "valibot";
import { readSecretFiles } from "../../../src/cli/secret-files.ts";
import { createServer, defineAgent } from "../../../src/index.ts";

if (process.env.SICK === "exit") {
  console.error("cannot find the controller");
  process.exit(1);
}
readSecretFiles(process.env);
if (process.argv[2] === "store") {
  const { main } = await import("../../../src/cli/main.ts");
  const write = (text: string) => void process.stdout.write(text);
  const note = (line: string) => write(`${line}\n`);
  const context = {
    argv: process.argv.slice(2),
    self: [],
    cwd: process.cwd(),
    env: process.env,
    interactive: false,
  };
  const code = await main(context.argv, { ...context, print: note, write, note, platforms: {} } as never);
  process.exit(code);
}
const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  parameters: [{ name: "TOKEN" }],
  methods: {
    job_start: {
      async run({ job, parameters }) {
        const item = await job.openCase({ id: "one", name: "One question" });
        const { word } = await item.ask({ question: "Which word?", fields: v.object({ word: v.string() }) });
        await item.close({ word });
        const { TOKEN } = parameters;
        return {
          message: `${word} in ${process.env.STEP}`,
          ...(TOKEN !== undefined && { read: TOKEN.length }),
        };
      },
    },
  },
});
const filer = defineAgent({
  name: "Filer",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        await job.file("note.txt", `a note of ${job.id}`);
        return { message: "filed" };
      },
    },
  },
});
const headers = { "x-api-key": process.env.SERVICE_API_KEY ?? "" };
const service = createServer({ agents: [asker, filer], admin: false });
if (process.env.REFUSES) {
  const { status } = await service.fetch(new Request(`http://here/jobs/${process.env.REFUSES}`, { headers }));
  if (status === 200) {
    console.error(`refuses the job ${process.env.REFUSES}`);
    process.exit(1);
  }
}
process.on("SIGTERM", () => void service.close().then(() => process.exit(0)));
await service.listen();
console.log(`listening in step ${process.env.STEP}`);
