// @long
import { spawn } from "node:child_process";
import { afterAll, beforeAll, expect } from "vitest";
import { bundleChild } from "../_bundle.ts";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { writeAll } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";
import { allOf } from "./_server.ts";
import { tracesOf } from "./_traces.ts";
import { watchArguments } from "./_watch-arguments.ts";
import { failure, KEY, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

describe("a release command on a server of one's own", () => {
  it("runs in the new image with its secrets, while the former release serves, and one that fails leaves that", async () => {
    const watch = await watchArguments();
    const at = await site(sshd.config, await freePort());
    const mine = at.checkout();
    const lines: string[] = [];
    const up = (step: string, release: string) => {
      const text = `variables: { STEP: ${step} }\nrelease: ${JSON.stringify(release)}\n`;
      writeAll(mine.cwd, { "deploy.yaml": text });
      return mine.up({ onEvent: (event) => event.type === "output" && lines.push(event.line) });
    };
    const print =
      'echo "step=$STEP key=$(printf %s $SERVICE_API_KEY | wc -c) args=$*"; id -u; touch /tmp/x /data/x; touch /app/x || echo read-only';

    const first = await up("one", print);
    const [serving] = at.running();
    const failed = await up("two", "echo broken >&2; exit 255").catch(failure);
    const left = [
      at.running(),
      docker("ps", "--all", "--format", "{{.Names}}", "--filter", `name=${at.serviceName}.command`),
    ];
    const answered = await at.ask("/.well-known/health");
    // What an earlier run has left is ended first.
    const label = `agent-control-service.service=${at.serviceName}`;
    docker(
      "run",
      "--detach",
      "--name",
      `${at.serviceName}.command`,
      "--label",
      label,
      "node:22-slim",
      "sleep",
      "600",
    );
    const second = await up("two", "npm --version > /tmp/version && echo step=$STEP && ls /data");
    const traces = tracesOf(at.serviceName, mine.cwd, { SERVICE_API_KEY: KEY });
    await mine.down({ flags: { removeData: true } });

    await watch.expectNone({ SERVICE_API_KEY: KEY }, ["ssh", "docker", "timeout"]);
    expect(traces).toEqual([]);
    expect(first.result.success).toBe(true);
    expect(lines).toEqual(expect.arrayContaining([`step=one key=${KEY.length} args=`, "1000", "read-only"]));
    expect(failed).toMatchObject({ message: "The release command failed: exit code 255", log: ["broken"] });
    expect(left).toEqual([[serving], ""]);
    expect(answered).toMatchObject({ status: "healthy" });
    expect(second.result.success).toBe(true);
    expect(lines).toContain("step=two");
    expect(lines.join("\n")).not.toContain(KEY);
    expect(allOf(at.serviceName)).toEqual([]);
  }, 300_000);

  for (const signal of ["SIGINT", "SIGKILL"] as const)
    it(`ends with its deployment, which a ${signal} ends, and runs again in the next one`, async () => {
      const at = await site(sshd.config, await freePort());
      const mine = at.checkout();
      const write = (release: string) =>
        writeAll(mine.cwd, {
          "deploy.yaml": `variables: { STEP: one }\nrelease: ${JSON.stringify(release)}\n`,
        });
      const child = await bundleChild(new URL("server/cli.ts", import.meta.url));
      write("echo started; sleep 600");
      const words = [
        ...["up", "--yes", "--no-check", "--platform", "server", "--host", "server", "--bind", "127.0.0.1"],
        ...["--ssh-config", sshd.config, "--name", at.name, "--port", new URL(at.url).port],
      ];
      const running = spawn(process.execPath, [child, ...words], {
        cwd: mine.cwd,
        env: { ...process.env, SERVICE_API_KEY: KEY },
        stdio: ["ignore", "ignore", "pipe"],
      });
      let said = "";
      running.stderr.on("data", (chunk: Buffer) => {
        said += chunk.toString();
      });
      const ended = new Promise<number | null>((resolve) => running.once("close", resolve));
      const containers = () =>
        docker("ps", "--all", "--format", "{{.Names}}", "--filter", `name=${at.serviceName}.command`);
      const lines = () => docker("logs", `${at.serviceName}.command`);
      await expect.poll(() => containers() && lines(), { timeout: 120_000 }).toBe("started");

      running.kill(signal);
      const code = await ended;
      await expect.poll(containers, { timeout: 60_000 }).toBe("");
      write("echo again > /tmp/x");
      const next = await mine.up();

      expect(code).toBe(signal === "SIGINT" ? 4 : null);
      if (signal === "SIGINT") expect(said).toContain("Run the same command again");
      expect(next.result.success).toBe(true);
    }, 300_000);
});
