// The same with `workflow` and its local world, which calls its two bundles over HTTP: arguments are the folder in which
// it is installed, the steps, and the milliseconds after which it is left.
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, count, most] = process.argv.slice(2);
const BUNDLES = ".well-known/workflow/v1";
mkdirSync(join(folder, "workflows"), { recursive: true });
mkdirSync(join(folder, ".well-known"), { recursive: true });
// Without it, names of bundles end with what Node takes for another kind of module.
writeFileSync(join(folder, ".well-known/package.json"), '{ "type": "commonjs" }');
writeFileSync(
  join(folder, "workflows/curve.js"),
  `async function one(n) {
  "use step";
  globalThis.noteStep();
  return { n, text: "what a step gives" };
}

export async function curve(steps) {
  "use workflow";
  for (let n = 0; n < steps; n++) await one(n);
  return steps;
}
`,
);
process.chdir(folder);
process.env.WORKFLOW_LOCAL_DATA_DIR = mkdtempSync(join(folder, "data-"));

const require = createRequire(join(folder, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const builders = createRequire(require.resolve("@workflow/cli/package.json")).resolve("@workflow/builders");
const { StandaloneBuilder } = await import(pathToFileURL(builders).href);
const bundle = (name) => `./${BUNDLES}/${name}.js`;
await new StandaloneBuilder({
  ...{ dirs: ["./workflows"], workingDir: folder, buildTarget: "standalone" },
  ...{
    stepsBundlePath: bundle("step"),
    workflowsBundlePath: bundle("flow"),
    webhookBundlePath: bundle("webhook"),
  },
}).build();

const handlers = {
  flow: require(bundle("flow")).POST,
  step: require(bundle("step")).POST,
};
const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const url = new URL(request.url, process.env.WORKFLOW_LOCAL_BASE_URL);
  const handler = handlers[url.pathname.endsWith("/flow") ? "flow" : "step"];
  const { method, headers } = request;
  const answer = await handler(new Request(url, { method, headers, body: Buffer.concat(chunks) }));
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  response.end(Buffer.from(await answer.arrayBuffer()));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
process.env.WORKFLOW_LOCAL_BASE_URL = `http://127.0.0.1:${server.address().port}`;

const times = [];
const leave = () => process.send(times, () => process.exit(0));
globalThis.noteStep = () => {
  times.push(performance.now());
  if (times.length > 1 && times.at(-1) - times[0] > Number(most)) leave();
};
const { start } = await load("workflow/api");
const run = await start({ workflowId: "workflow//./workflows/curve//curve" }, [Number(count)]);
await run.returnValue;
leave();
