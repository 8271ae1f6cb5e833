import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadController } from "../../src/cli/load-controller.ts";
import { project } from "./_svc.ts";

const AGENT = `
import { createServer, defineAgent } from "agent-control-service";
enum Kind { Agent = "An Agent" } // TypeScript that cannot be stripped
const agent = defineAgent({ name: Kind.Agent as string, version: "1.0.0", methods: { job_start: { run: () => 1 } } });
`;

async function load(name: string, text: string) {
  const cwd = await project({ [name]: text });
  return loadController(join(cwd, name), { cwd });
}

describe("loading a controller", () => {
  it.each([
    ["TypeScript", "src/controller.ts", `${AGENT}export default createServer({ agents: [agent] });`],
    [
      "a promise",
      "src/controller.ts",
      `${AGENT}export default Promise.resolve(createServer({ agents: [agent] }));`,
    ],
    [
      "JavaScript",
      "controller.mjs",
      `import { createServer } from "agent-control-service";
       export default createServer({ agents: [{ name: "A", version: "1", methods: { job_start: { run: () => 1 } } }] });`,
    ],
  ])("returns the service that %s exports", async (_, name, text) => {
    const service = await load(name, text);

    expect(service.options.agents).toHaveLength(1);
  });

  it.each([
    ["nothing", "", "src/controller.ts has no default export"],
    ["an agent", `${AGENT}export default agent;`, "src/controller.ts exports an agent, not a service"],
    ["a function", "export default () => {};", "src/controller.ts exports a function, not a service"],
    [
      "something else",
      "export default { a: 1 };",
      "src/controller.ts has a default export that is not a service",
    ],
    ["a missing package", 'import "no-such-package";', "src/controller.ts could not be loaded"],
    ["a missing file", 'import "./nope.ts";', "src/controller.ts could not be loaded"],
    ["half a sentence", "export default {", "src/controller.ts could not be loaded"],
    ["an accident", 'throw new Error("no luck today");', "src/controller.ts could not be loaded"],
    ["wrong options", `${AGENT}export default createServer({ agents: [] });`, "Option agents is empty"],
  ])("reports the problem of a file of %s", async (_, text, message) => {
    await expect(load("src/controller.ts", text)).rejects.toThrow(message);
  });

  it("shows where in the project it failed, and what to install", async () => {
    const thrown = load("src/controller.ts", 'const a = 1;\nthrow new Error("no luck today");');
    await expect(thrown).rejects.toMatchObject({
      detail: expect.stringMatching(/no luck today\nat .*controller\.ts:2:/),
    });

    const missing = load("src/controller.ts", 'import "no-such-package";');
    await expect(missing).rejects.toMatchObject({
      detail: expect.stringContaining("npm install no-such-package"),
    });
  });
});
