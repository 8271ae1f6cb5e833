import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { createDeployTools } from "agent-control-service/testing";
import { afterAll, beforeAll, expect } from "vitest";
import { isDeployError } from "../../src/deploy/errors.ts";
import platform from "../../src/plugins/platforms/server/platform.ts";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { freePort } from "./_local-project.ts";

const { describe, it, met } = requirement("docker", "sshd");

let sshd: Sshd;
let folder: string;
beforeAll(async () => {
  if (!met) return;
  sshd = await startSshd();
  folder = mkdtempSync(join(tmpdir(), "svc-server-errors-"));
});
afterAll(async () => {
  await sshd?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** A session on a service that does not exist, with this ssh configuration. */
async function open(sshConfig: string) {
  const tools = createDeployTools({ cwd: folder });
  const target = {
    name: "errors",
    environment: "dev" as const,
    serviceName: `errors-${Math.random().toString(36).slice(2, 8)}-dev`,
    region: "server",
    projectId: undefined,
    port: await freePort(),
    flags: { host: "server", sshConfig },
    cwd: folder,
  };
  return platform.connect(target, tools);
}

async function preflightWith(sshConfig: string): Promise<unknown> {
  const session = await open(sshConfig);
  try {
    return await session.preflight();
  } catch (error) {
    if (isDeployError(error)) return { code: error.code, text: `${error.message}. ${error.fix}` };
    throw error;
  } finally {
    await session.close?.();
  }
}

/** The commands of a host, with a stand-in for Docker, or without any. */
function hostWith(name: string, docker?: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  for (const program of ["sh", "cat", "head", "awk", "df"])
    symlinkSync(`/bin/${program}`, join(path, program));
  if (docker !== undefined) writeFileSync(join(path, "docker"), `#!/bin/sh\n${docker}\n`, { mode: 0o755 });
  return sshd.restricted(name, `PATH=${path}; export PATH; /bin/sh -c "$SSH_ORIGINAL_COMMAND"`);
}

describe("a server that is not ready is named, with what to do", () => {
  it("over ssh: unreachable, unknown, another key, no login", async () => {
    const port = /Port (\d+)/.exec(readFileSync(sshd.config, "utf8"))?.[1];
    const other = join(folder, "known");
    const user = readFileSync(join(sshd.folder, "user.pub"), "utf8");
    writeFileSync(other, `[127.0.0.1]:${port} ${user}`);

    const said = await Promise.all(
      [
        ["Port 1"],
        ["HostName no-such-host.invalid"],
        ["UserKnownHostsFile /dev/null"],
        [`UserKnownHostsFile ${other}`],
        ["PubkeyAuthentication no"],
      ].map((lines, index) => preflightWith(sshd.withLines(`case-${index}`, lines))),
    );

    expect(said).toEqual([
      { code: "unreachable", text: expect.stringMatching(/server cannot be reached over ssh\. .*firewall/) },
      { code: "unreachable", text: expect.stringMatching(/could not be resolved\. .*--host/) },
      { code: "preflight", text: expect.stringMatching(/host key of server is unknown.*--accept-new-host/) },
      {
        code: "preflight",
        text: expect.stringMatching(/host key of server has changed.*ssh-keygen -R server/),
      },
      { code: "login_expired", text: expect.stringMatching(/server denied the login\. .*authorized_keys/) },
    ]);
  });

  it("with Docker: none, not running, no rights, a full disk", async () => {
    const cases = [
      hostWith("none"),
      hostWith(
        "stopped",
        'export DOCKER_HOST=unix:///nonexistent.sock; [ -x /usr/local/bin/docker ] && exec /usr/local/bin/docker "$@"; exec /usr/bin/docker "$@"',
      ),
      hostWith(
        "rights",
        "echo 'permission denied while trying to connect to the Docker daemon socket' >&2; exit 1",
      ),
      hostWith("disk", "echo 'write /var/lib/docker/x: no space left on device' >&2; exit 1"),
      hostWith("file", "echo 'open /var/lib/docker/y: permission denied' >&2; exit 1"),
    ];

    const said = await Promise.all(cases.map(preflightWith));

    expect(said).toEqual(
      [
        /not ready: Docker is not installed.*apt-get install docker\.io/,
        /not ready: Docker does not run.*systemctl/,
        /not ready: The user on the server may not use Docker.*usermod/,
        /not ready: The disk of the server is full.*docker system df/,
        /^(?!.*registry).*not ready.*/s,
      ].map((text) => ({ code: "failed", text: expect.stringMatching(text) })),
    );
  });

  it("trusts a new host key only where that is asked for, and never a changed one", async () => {
    const known = join(folder, "new-known");
    const config = sshd.withLines("new", [`UserKnownHostsFile ${known}`, "StrictHostKeyChecking ask"]);
    const accepting = async () => {
      const session = await platform.connect(
        { ...(await target()), flags: { host: "server", sshConfig: config, acceptNewHost: true } },
        createDeployTools({ cwd: folder }),
      );
      await session.inspect();
      await session.close?.();
    };

    expect(await preflightWith(config)).toMatchObject({ code: "preflight" });
    await accepting();
    expect(readFileSync(known, "utf8")).toContain("127.0.0.1");
  });
});

async function target() {
  return {
    name: "errors",
    environment: "dev" as const,
    serviceName: `errors-${Math.random().toString(36).slice(2, 8)}-dev`,
    region: "server",
    projectId: undefined,
    port: await freePort(),
    cwd: folder,
  };
}

describe("the port of a service", () => {
  it("that a program outside of Docker has is found before anything is built", async () => {
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    const { port } = listener.address() as AddressInfo;
    const at = { ...(await target()), port, flags: { host: "server", sshConfig: sshd.config } };
    const session = await platform.connect(at, createDeployTools({ cwd: folder }));
    const spec = { ...SPEC, port };

    const found = await session.preflight();
    const planned = await session.plan(spec).catch((error: unknown) => error);
    listener.close();
    await once(listener, "close");
    const free = await session.preflight();
    const actions = await session.plan(spec);
    await session.close?.();

    const finding = {
      level: "error",
      subject: "Port",
      message: `port ${port} of the server is used by a program there`,
    };
    expect(found).toContainEqual(expect.objectContaining(finding));
    expect(planned).toMatchObject({
      code: "preflight",
      message: expect.stringContaining("used by a program"),
    });
    expect(free).not.toContainEqual(expect.objectContaining({ level: "error" }));
    expect(actions.length).toBeGreaterThan(0);
  });
});

const SPEC = {
  image: "errors:tag",
  imageTag: "tag",
  env: {},
  secrets: {},
  secretHashes: {},
  publicUrl: undefined,
  healthPath: "/.well-known/health",
};

describe("the lock of a service", () => {
  it("is held by one session, names it to others, and ends with it", async () => {
    const { flags: _, ...at } = { ...(await target()), flags: {} };
    const session = () =>
      platform.connect(
        { ...at, flags: { host: "server", sshConfig: sshd.config } },
        createDeployTools({ cwd: folder }),
      );
    const [mine, theirs] = [await session(), await session()];
    const asking = { seconds: 60, breakLock: false };
    const holder = (name: string) => ({
      id: name,
      holder: `${name}@${hostname()}`,
      since: new Date().toISOString(),
    });

    const release = await mine.lock?.(holder("anna"), asking);
    const seen = await theirs.lockedBy?.();
    const refused = await theirs.lock?.(holder("bert"), asking).catch((error: unknown) => error);
    const broken = await theirs.lock?.(holder("bert"), { ...asking, breakLock: true });
    await release?.();
    const still = await mine.lock?.(holder("anna"), asking).catch((error: unknown) => error);
    await broken?.();
    const second = await mine.lock?.(holder("anna"), asking);
    await second?.();
    const nobody = await theirs.lockedBy?.();
    await mine.close?.();
    await theirs.close?.();

    expect(still).toMatchObject({ code: "locked", message: expect.stringContaining("bert@") });
    expect(refused).toMatchObject({ code: "locked", message: expect.stringContaining("anna@") });
    expect(second).toBeTypeOf("function");
    expect([seen?.holder, nobody]).toEqual([`anna@${hostname()}`, undefined]);
  });
});
