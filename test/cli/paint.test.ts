import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { createPaint } from "../../src/cli/paint.ts";
import { renderTable } from "../../src/cli/table.ts";
import { beginSvc, PROCESS_TIME, project, svc } from "./_svc.ts";

const ESCAPE = "\u001b[";
const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";
const run = () => { throw new Error("no luck"); };
const hello = defineAgent({ name: "Hello", version: "1.0.0", methods: { job_start: { run } } });
export default createServer({ agents: [hello], port: 0 });
`;

describe("colors", () => {
  it.each([
    ["on a terminal", true, {}, true],
    ["not where the output is no terminal", false, {}, false],
    ["not with NO_COLOR", true, { NO_COLOR: "1" }, false],
    ["with an empty NO_COLOR", true, { NO_COLOR: "" }, true],
    ["not on a dumb terminal", true, { TERM: "dumb" }, false],
    ["anywhere with FORCE_COLOR, which wins", false, { FORCE_COLOR: "1", NO_COLOR: "1" }, true],
    ["nowhere with FORCE_COLOR=0", true, { FORCE_COLOR: "0" }, false],
  ])("are used %s", (_, isTTY, env, expected) => {
    expect(createPaint({ isTTY }, env)("red", "x").includes(ESCAPE)).toBe(expected);
  });

  it("keep columns aligned, and do not affect words of other columns", () => {
    const header = ["status", "message"];
    const rows = [
      ["failed", "failed"],
      ["in_progress", "still at it"],
    ];
    const colored = renderTable(header, rows, createPaint({ isTTY: true }, {}));

    expect(stripVTControlCharacters(colored)).toBe(renderTable(header, rows));
    expect(colored.split("\n")[1]).toBe(`${ESCAPE}31mfailed     ${ESCAPE}39m  failed`);
  });

  it("are in tables, statuses and errors, and never in JSON", { timeout: PROCESS_TIME }, async () => {
    const cwd = await project({ "controller.ts": CONTROLLER });
    const service = beginSvc(["start"], { cwd });
    await service.prints(/is running/);
    const env = { FORCE_COLOR: "1" };
    await svc(["job", "start", "hello", "--wait"], { cwd });

    const list = await svc(["job", "list"], { cwd, env });
    const json = await svc(["job", "list", "--json"], { cwd, env });
    const plain = await svc(["job", "list"], { cwd });
    const wrong = await svc(["job", "show", "no-such-job"], { cwd, env });
    const wrongJson = await svc(["job", "show", "no-such-job", "--json"], { cwd, env });
    const unknown = await svc(["jbo"], { cwd, env });

    expect(list.stdout).toContain(`${ESCAPE}31mfailed${ESCAPE}39m`);
    expect(json.stdout).not.toContain(ESCAPE);
    expect(JSON.parse(json.stdout)).toMatchObject([{ status: "failed" }]);
    expect(plain.stdout).not.toContain(ESCAPE);
    expect(wrong.stderr).toContain(`${ESCAPE}31mError:${ESCAPE}39m`);
    expect(wrongJson.stdout).not.toContain(ESCAPE);
    expect(unknown.stderr).toContain(`${ESCAPE}31msvc:${ESCAPE}39m Unknown command`);
  });
});
