// @long
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { MARKS } from "../../src/deploy/config.ts";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { jobContext } from "../runs/_jobs.ts";
import { writeAll } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";
import { loginRegistry } from "./_registry.ts";
import { allOf, removeAllOf } from "./_server.ts";
import { failure, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");
const withRegistry = requirement("docker", "sshd", "registry");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

/** What Docker was given for the container that runs, without what each release has of its own. */
function settingsOf([name = ""]: readonly string[]) {
  const [{ Config, HostConfig }] = JSON.parse(docker("inspect", name));
  const env = (Config.Env as string[]).filter((one) => !MARKS.includes(one.split("=")[0] ?? "")).sort();
  const { "agent-control-service.record": _, ...labels } = Config.Labels;
  return { env, labels, host: { ...HostConfig, Binds: HostConfig.Binds.toSorted() } };
}

describe("a team that deploys to one server", () => {
  it("changes nothing from a fresh clone that the clone does not name", async () => {
    const at = await site(sshd.config, await freePort());
    const mine = at.checkout();
    const labels =
      "labels: { team: finance }\nsecrets: { ERP_TOKEN: }\nvariables: { TEAM: finance, STEP: one }\n";
    writeAll(mine.cwd, {
      "deploy.yaml": `platform: server\nname: ${at.name}\nport: ${at.url.split(":").at(-1)}\n${labels}`,
    });
    const flags = { memory: "300m", cpus: "0.5" };
    await mine.up({
      flags,
      env: { ERP_TOKEN: "erp-token-of-the-laptop" },
      options: { publicUrl: "https://agents.example.com" },
    });
    const before = settingsOf(at.running());

    const theirs = at.checkout();
    const same = await theirs.up();
    writeAll(theirs.cwd, { "service/more.txt": "changed" });
    const next = await theirs.up();

    expect(same.changed).toBe(false);
    expect(next.changed).toBe(true);
    expect(before.env).toEqual(
      expect.arrayContaining(["TEAM=finance", "SERVICE_PUBLIC_URL=https://agents.example.com"]),
    );
    expect(before).toMatchObject({
      labels: { team: "finance" },
      host: { Memory: 300 * 1024 * 1024, NanoCpus: 5e8 },
    });
    expect(before.host.Binds).toContainEqual(expect.stringContaining("ERP_TOKEN"));
    expect(settingsOf(at.running())).toEqual(before);
  }, 300_000);

  it("sees the environments of its service from any checkout, and no others", async () => {
    const at = await site(sshd.config, await freePort());
    const preview = `${at.name}-preview-x`;
    onTestFinished(() => removeAllOf(preview));
    const mine = at.checkout();
    await mine.up();
    await mine.up({ options: { env: "preview-x", port: await freePort() } });

    const deployment = await at.checkout().open("list");
    const found = await deployment.session.environments?.();
    await deployment.close();
    await mine.down({ options: { env: "preview-x" } });
    const later = await at.checkout().open("list");
    const left = await later.session.environments?.();
    await later.close();

    expect(found?.map(({ environment }) => environment).sort()).toEqual(["dev", "preview-x"]);
    for (const { since } of found ?? [])
      expect(Date.parse(since ?? "")).toBeGreaterThan(Date.now() - 300_000);
    expect(left?.map(({ environment }) => environment)).toEqual(["dev"]);
  }, 300_000);
});

withRegistry.describe("an image that svc did not build, on a server", () => {
  const PASSWORD = "planted-registry-password";

  it("is pulled by the server's own login, serves by its digest, and goes with the service", async () => {
    const registry = await loginRegistry("puller", PASSWORD);
    const folder = mkdtempSync(join(tmpdir(), "svc-docker-login-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const auth = Buffer.from(`puller:${PASSWORD}`).toString("base64");
    mkdirSync(join(folder, "in"));
    writeFileSync(join(folder, "in/config.json"), JSON.stringify({ auths: { [registry.host]: { auth } } }));
    const login = (name: string) =>
      sshd.restricted(
        name,
        `DOCKER_CONFIG=${join(folder, name)}; export DOCKER_CONFIG; /bin/sh -c "$SSH_ORIGINAL_COMMAND"`,
      );
    const at = await site(sshd.config, await freePort());
    const mine = at.checkout();
    mine.step("one");
    const built = await mine.up();
    const tag = `${registry.host}/team/desk:1`;
    docker("tag", built.image.replace(/^.*@/, ""), tag);
    docker("--config", join(folder, "in"), "push", tag);
    docker("image", "rm", tag);
    const imageRef = `${registry.host}/team/desk@${await registry.digestOf("team/desk", "1")}`;
    mine.step("two");

    const out = { sshConfig: login("out") };
    const refused = await mine.up({ options: { imageRef }, flags: out }).catch(failure);
    const missing = imageRef.replace(/sha256:.*/, `sha256:${"0".repeat(64)}`);
    const flags = { sshConfig: login("in") };
    const unknown = await mine.up({ options: { imageRef: missing }, flags }).catch(failure);
    const given = await mine.up({ options: { imageRef }, flags });
    const again = await mine.up({ options: { imageRef }, flags });
    await at.ask("/agents/asker/jobs", { job_context: jobContext("open"), job_fields: {} });
    const job = () => at.ask<{ status: string }>("/jobs/open");
    await expect.poll(async () => (await job()).status, { timeout: 30_000 }).toBe("awaiting");
    const served = docker("inspect", "--format", "{{.Config.Image}}", ...at.running());
    const back = await mine.rollback({ flags });
    const forth = await mine.rollback({ flags });
    await mine.down({ flags: { ...flags, removeData: true }, options: { acceptDataLoss: true } });

    expect(refused).toMatchObject({
      message: expect.stringContaining("The registry refused the server's login"),
      fix: expect.stringContaining("docker login"),
    });
    expect(unknown).toMatchObject({ message: expect.stringContaining("does not have it") });
    expect(given).toMatchObject({ changed: true, image: imageRef });
    expect(again.changed).toBe(false);
    expect(served).toBe(imageRef);
    expect([back.release.image, forth.release.image]).toEqual([built.image, imageRef]);
    expect(allOf(at.serviceName)).toEqual([]);
    expect(() => execFileSync("docker", ["image", "inspect", imageRef], { stdio: "ignore" })).toThrow();
  }, 300_000);
});
