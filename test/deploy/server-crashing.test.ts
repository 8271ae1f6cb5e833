// @long
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { docker, freePort } from "./_local-project.ts";
import { type Checkout, failure, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

const SICK = { SICK: "exit" };

/** The containers of a service, with their states. */
const containers = (serviceName: string) => {
  const label = `label=agent-control-service.service=${serviceName}`;
  return docker("ps", "--all", "--format", "{{.State}} {{.Names}}", "--filter", label)
    .split("\n")
    .filter(Boolean);
};

async function logOf(checkout: Checkout): Promise<string> {
  const deployment = await checkout.open("logs");
  const lines: string[] = [];
  for await (const line of deployment.session.logs!({ since: new Date(0), follow: false })) lines.push(line);
  await deployment.close();
  return lines.join("\n");
}

/** The client's configuration for this server, whose docker does something else where a call matches. */
function serverWhere(name: string, script: string): string {
  const folder = join(sshd.folder, `bin-${name}`);
  mkdirSync(folder);
  const real = execFileSync("sh", ["-c", "command -v docker"], { encoding: "utf8" }).trim();
  const text = `#!/bin/sh\ndocker=${real}; note=${folder}/note\n${script}\nexec ${real} "$@"\n`;
  writeFileSync(join(folder, "docker"), text, { mode: 0o755 });
  return sshd.restricted(name, `PATH=${folder}:$PATH; export PATH; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"`);
}

describe("a first release on a server that fails", () => {
  it("is stopped and keeps its log; any checkout deploys what is fixed, and none goes back to it", async () => {
    const at = await site(sshd.config, await freePort());
    const mine = at.checkout();
    mine.step("first", SICK);

    const failed = failure(await mine.up().catch((error: unknown) => error));
    const left = containers(at.serviceName);
    const log = await logOf(mine);
    const theirs = at.checkout();
    theirs.step("first, elsewhere", SICK);
    const again = failure(
      await theirs
        .up({ checkJobs: async () => ({ known: false, reason: "nothing responds" }) })
        .catch((error: unknown) => error),
    );
    const leftAgain = containers(at.serviceName);
    theirs.step("fixed");
    const { release } = await theirs.up();

    expect(failed).toMatchObject({ code: "unhealthy", exitCode: 1 });
    expect(failed.log).toContain("cannot find the controller");
    expect(failed.outcome).toContain("the failed one is stopped, and kept with its log");
    expect(left).toEqual([expect.stringMatching(/^exited /)]);
    expect(log).toContain("cannot find the controller");
    expect(again).toMatchObject({ code: "unhealthy", exitCode: 1 });
    expect(again.outcome).toContain("the first release");
    expect(leftAgain.filter((one) => !one.startsWith("exited "))).toEqual([]);
    expect(release.env).toMatchObject({ STEP: "fixed" });
    expect(containers(at.serviceName)).toEqual([expect.stringMatching(/^running /)]);
  }, 300_000);
});

describe("a service on a server", () => {
  it("that crashes again and again is replaced, also where the engine refuses to change it for a moment", async () => {
    const once = `case "$*" in "update --restart unless-stopped "*)
      [ -e $note ] || { : > $note; echo "Error response from daemon: Cannot update container: cannot update a stopped container: unknown" >&2; exit 1; };;
    esac`;
    const at = await site(serverWhere("crashing", once), await freePort());
    const mine = at.checkout();
    mine.step("one");
    await mine.up();
    mine.step("two");

    const { release } = await mine.up();

    expect(release.env).toMatchObject({ STEP: "two" });
    expect(at.running()).toHaveLength(1);
  }, 300_000);

  it("is deployed while others remove images and containers of the server, and release its lock", async () => {
    // What was listed, and is gone when it is read.
    const gone = "f".repeat(64);
    const racing = `case "$*" in
      "image ls --quiet"*) $docker "$@"; echo sha256:${gone}; exit;;
      "ps --all --quiet"*) $docker "$@"; echo ${gone}; exit;;
      "inspect --format held "*) for last; do :; done; $docker rm --force $last >/dev/null;;
    esac`;
    const config = serverWhere("racing", racing);
    const at = await site(config, await freePort());
    const mine = at.checkout();
    mine.step("one");
    const other = await mine.open("up");
    const request = { seconds: 60, breakLock: false };
    const holder = { id: "other", holder: "another", since: new Date().toISOString() };
    const release = await other.session.lock!(holder, request);

    const deployed = await mine.up();
    await release();
    await other.close();

    expect(deployed.release.env).toMatchObject({ STEP: "one" });
    expect(at.running()).toHaveLength(1);
  }, 300_000);
});
