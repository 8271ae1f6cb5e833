import { describe, expect, it } from "vitest";
import { createDeployTools } from "../../src/deploy/create-tools.ts";
import { valueFromCommand } from "../../src/deploy/secret-command.ts";
import { svc } from "./_cli.ts";
import { stage, writeAll } from "./_fixture.ts";

const cwd = process.cwd();
const tools = (signal?: AbortSignal) =>
  createDeployTools({ cwd, env: { PATH: process.env.PATH }, ...(signal ? { signal: () => signal } : {}) });
const ask = (command: string) => valueFromCommand({ name: "PAY_TOKEN", command }, tools(), cwd, 300);

describe("the command of a secret", () => {
  it("that hangs is ended, also where a program that it has started holds its output", async () => {
    const error = { code: "bad_config", message: "The command of secret PAY_TOKEN did not end within 0.3 s" };

    await expect(ask("sleep 120")).rejects.toMatchObject(error);
    await expect(ask("sleep 120 | cat")).rejects.toMatchObject(error);
  });

  it("ends with the deployment, which is what the error says then", async () => {
    const stop = new AbortController();
    const asked = valueFromCommand(
      { name: "PAY_TOKEN", command: "sleep 120 | cat" },
      tools(stop.signal),
      cwd,
    );
    stop.abort(new Error("interrupted"));

    await expect(asked).rejects.toThrow("interrupted");
  });

  it("may print several lines, but not for a key that is one", async () => {
    const at = await stage({ predictable: true });
    const run = (name: string) => {
      writeAll(at.cwd, {
        "deploy.yaml": `platform: memory\nname: hello\nsecrets: { ${name}: { command: "echo notice; echo value" } }\n`,
      });
      return svc(at, "up --yes --no-check");
    };

    const refused = await run("SERVICE_API_KEY");
    const calls = at.world.read().calls;
    const taken = await run("SIGNING_KEY");

    expect(refused).toMatchObject({
      code: 2,
      err: expect.stringContaining("SERVICE_API_KEY has several lines"),
    });
    expect(refused.err).not.toContain("notice; echo");
    expect(calls).toEqual([]);
    expect(taken.code).toBe(0);
    expect(at.world.read().secrets["hello-dev"]?.SIGNING_KEY?.value).toBe("notice\nvalue");
  });
});
