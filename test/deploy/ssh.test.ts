import { afterAll, beforeAll, expect } from "vitest";
import { createDeployTools } from "../../src/deploy/create-tools.ts";
import { openSsh } from "../../src/plugins/platforms/server/ssh.ts";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";

const { describe, it, met } = requirement("sshd");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

describe("the connection to a server", () => {
  it("ends with an interrupted deployment, although a script still runs there", async () => {
    const stop = new AbortController();
    const cwd = process.cwd();
    const tools = createDeployTools({ cwd, env: process.env, signal: () => stop.signal });
    const ssh = openSsh(tools, { host: "server", sshConfig: sshd.config }, cwd);
    let isStarted = () => {};
    const started = new Promise<void>((resolve) => {
      isStarted = resolve;
    });
    const running = ssh.script("echo started; exec sleep 90", [], { onLine: () => isStarted() });
    running.catch(() => undefined);
    await started;

    stop.abort(new Error("interrupted"));

    await expect(running).rejects.toThrow("interrupted");
    await ssh.close();
  });
});
