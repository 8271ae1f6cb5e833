// @long
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { writeAll } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";
import { allOf } from "./_server.ts";
import { failure, KEY, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

describe("a release command on a server of one's own", () => {
  it("runs in the new image with its secrets, while the former release serves, and one that fails leaves that", async () => {
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
    await mine.down({ flags: { removeData: true } });

    expect(first.result.success).toBe(true);
    expect(lines).toEqual(expect.arrayContaining([`step=one key=${KEY.length} args=`, "1000", "read-only"]));
    expect(failed).toMatchObject({ message: "The release command failed: exit code 254", log: ["broken"] });
    expect(left).toEqual([[serving], ""]);
    expect(answered).toMatchObject({ status: "healthy" });
    expect(second.result.success).toBe(true);
    expect(lines).toContain("step=two");
    expect(lines.join("\n")).not.toContain(KEY);
    expect(allOf(at.serviceName)).toEqual([]);
  }, 300_000);
});
