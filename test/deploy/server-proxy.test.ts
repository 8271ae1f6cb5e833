// @long
import { mkdtempSync, rmSync } from "node:fs";
import { copyFile, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { serverPlatform } from "../../src/plugins/platforms/server/platform.ts";
import { findCaddy, requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { writeAll } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";
import { postgresImage } from "./_postgres-image.ts";
import { allOf } from "./_server.ts";
import { KEY, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd", "caddy");
const proxy = `svc-test-proxy-${Math.random().toString(36).slice(2, 8)}`;

let sshd: Sshd;
beforeAll(async () => {
  if (!met) return;
  sshd = await startSshd();
  // The machine's own Caddy in an image: the official one is in a registry.
  const folder = mkdtempSync(join(tmpdir(), "svc-caddy-"));
  await copyFile(findCaddy() ?? "", join(folder, "caddy"));
  await writeFile(join(folder, "Dockerfile"), "FROM node:22-slim\nCOPY caddy /usr/bin/caddy\n");
  docker("build", "--quiet", "--tag", `${proxy}:1`, folder);
  rmSync(folder, { recursive: true, force: true });
}, 120_000);
afterAll(async () => {
  await sshd?.close();
  if (met) docker("image", "rm", "--force", `${proxy}:1`);
});

/** The status of a response over HTTPS, from a Caddy with a certificate of its own authority. */
function statusOf(
  domain: string,
  port: number,
  headers: Record<string, string> = {},
): Promise<number | string> {
  return new Promise((resolve) => {
    const asked = request(
      {
        host: "127.0.0.1",
        port,
        path: "/jobs",
        servername: domain,
        headers: { host: domain, ...headers },
        rejectUnauthorized: false,
        agent: false,
      },
      (response) => {
        response.resume();
        response.once("end", () => resolve(response.statusCode ?? 0));
      },
    );
    asked.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    asked.end();
  });
}

/** A service that is to have a domain, whose proxy is on free ports. */
async function underDomain() {
  const at = await site(sshd.config, await freePort());
  const [httpPort, httpsPort] = [await freePort(), await freePort()];
  onTestFinished(() => {
    docker("rm", "--force", proxy);
    docker("volume", "rm", "--force", `${proxy}-data`, `${proxy}-sites`);
  });
  const platform = serverPlatform({ name: proxy, image: `${proxy}:1`, httpPort, httpsPort, patience: 0 });
  return { at, mine: at.checkout(), domain: `${at.name}.localhost`, platform, httpsPort };
}

describe("a service under a domain", () => {
  it("is served over HTTPS by a shared Caddy, and an update loses no request", async () => {
    const { at, mine, domain, platform, httpsPort } = await underDomain();
    mine.step("one");
    const key = { "x-api-key": KEY };

    const first = await mine.up({ platform, flags: { domain } });
    await expect.poll(() => statusOf(domain, httpsPort, key), { timeout: 30_000 }).toBe(200);
    const said: (number | string)[] = [];
    let isUpdating = true;
    const asking = (async () => {
      while (isUpdating) said.push(await statusOf(domain, httpsPort, key));
    })();
    mine.step("two");
    const second = await mine.up({ platform });
    isUpdating = false;
    await asking;
    const idle = await mine.up({ platform });
    const published = docker("inspect", "--format", "{{json .NetworkSettings.Ports}}", ...at.running());
    const { removed } = await mine.down({
      platform,
      flags: { removeData: true },
      options: { acceptDataLoss: true },
    });

    expect(first.release.url).toBe(`https://${domain}`);
    expect(second.release.env).toMatchObject({ STEP: "two", SERVICE_PUBLIC_URL: `https://${domain}` });
    expect(said.length).toBeGreaterThan(0);
    expect(new Set(said)).toEqual(new Set([200]));
    expect(idle.changed).toBe(false);
    expect(published).not.toContain("HostPort");
    expect(removed).toContain(`service ${at.serviceName}`);
    expect(docker("ps", "--all", "--quiet", "--filter", `name=${proxy}`)).toBe("");
    expect(allOf(at.serviceName)).toEqual([]);
  }, 300_000);

  requirement("postgres").it(
    "with a database beside it runs its new container before the previous one stops, and an update loses no request",
    async () => {
      const { at, mine, domain, platform, httpsPort } = await underDomain();
      const manifest = { name: at.name, type: "module", dependencies: { pg: "^8" } };
      writeAll(mine.cwd, { "package.json": JSON.stringify(manifest) });
      const key = { "x-api-key": KEY };

      mine.step("one");
      await mine.up({
        platform,
        flags: { domain, postgres: postgresImage() },
        options: { generateRsa: true },
      });
      const [before = ""] = at.running().filter((name) => !name.endsWith(".postgres"));
      await expect.poll(() => statusOf(domain, httpsPort, key), { timeout: 30_000 }).toBe(200);
      const said: (number | string)[] = [];
      let isUpdating = true;
      const asking = (async () => {
        while (isUpdating) said.push(await statusOf(domain, httpsPort, key));
      })();
      mine.step("two");
      await mine.up({ platform });
      isUpdating = false;
      await asking;
      const [after = ""] = at.running().filter((name) => !name.endsWith(".postgres"));
      const time = (name: string, which: string) =>
        Date.parse(docker("inspect", "--format", `{{.State.${which}}}`, name));

      expect(new Set(said)).toEqual(new Set([200]));
      expect(after).not.toBe(before);
      expect(time(after, "StartedAt")).toBeLessThan(time(before, "FinishedAt"));
    },
    300_000,
  );
});
