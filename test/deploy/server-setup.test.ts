import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import server from "../../src/plugins/platforms/server/platform.ts";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { svc } from "./_cli.ts";
import { temporaryProject } from "./_fixture.ts";

const { describe, it, met } = requirement("docker", "sshd");

let sshd: Sshd;
let folder: string;
beforeAll(async () => {
  if (!met) return;
  sshd = await startSshd();
  folder = mkdtempSync(join(tmpdir(), "svc-server-setup-"));
});
afterAll(async () => {
  await sshd?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** A machine without Docker that has these programs, as shell scripts; each writes down its words. */
function bareHost(name: string, programs: Readonly<Record<string, string>>) {
  const path = join(folder, name);
  const log = join(folder, `${name}.log`);
  mkdirSync(path);
  for (const program of ["sh", "cat", "head", "awk", "df", "id", "ln", "touch", "true"])
    symlinkSync(`/usr/bin/${program}`, join(path, program));
  const write = (program: string, body: string) => {
    rmSync(join(path, program), { force: true });
    writeFileSync(join(path, program), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  };
  for (const [program, body] of Object.entries(programs))
    write(program, `echo "${program} $*" >> ${log}\nhere=${path}\n${body}`);
  write("docker.real", `PATH=${process.env.PATH} exec docker "$@"`);
  const config = sshd.restricted(name, `PATH=${path}; export PATH; /bin/sh -c "$SSH_ORIGINAL_COMMAND"`);
  const cwd = temporaryProject();
  return {
    /** Runs `svc deploy setup` for it. */
    async setup(words = "--yes") {
      const line = `setup --platform server --host server --ssh-config ${config} ${words}`;
      return svc({ cwd } as never, line, {
        platforms: { server: async () => ({ default: server as never }) },
      });
    },
    /** What was run there besides questions. */
    changes: () =>
      (existsSync(log) ? readFileSync(log, "utf8") : "")
        .split("\n")
        .filter((line) => /install|update|configure|usermod|enable/.test(line)),
  };
}

/** Brings this machine's Docker along. */
const APT = 'case "$*" in *" install "*) ln -sf docker.real $here/docker ;; esac';

describe("svc deploy setup", () => {
  it("installs Docker on a bare machine, after consent, and changes nothing the second time", async () => {
    const host = bareHost("bare", { "apt-get": APT, dpkg: "", ufw: "echo 'Status: active'" });

    const asked = await host.setup("");
    const before = host.changes();
    const first = await host.setup();
    const made = host.changes();
    const second = await host.setup("--json");
    const inner = await host.setup("--bind 127.0.0.1");

    expect(inner.out).toContain("a firewall of your provider must let ssh in");
    expect(inner.out).not.toMatch(/open to everybody|8000/);
    expect(asked).toMatchObject({
      code: 1,
      err: expect.stringMatching(/no terminal.*Install Docker.*--yes/s),
    });
    expect(before).toEqual([]);
    expect(first).toMatchObject({
      code: 0,
      out: expect.stringMatching(/Install Docker.*Docker \d+.*ufw is active.*Next: svc deploy up/s),
    });
    expect(made.map((line) => line.replace(/ -o \S+/, ""))).toEqual([
      "dpkg --configure -a",
      "apt-get update",
      "apt-get install --yes docker.io",
    ]);
    expect(second.code).toBe(0);
    expect(JSON.parse(second.out)).toMatchObject({ ok: true, findings: [{ subject: "Server" }, {}, {}] });
    expect(host.changes()).toEqual(made);
  });

  it("starts Docker, and adds a user who may use sudo to its group", async () => {
    const groups = '[ -e $here/joined ] && echo "me docker" || echo me';
    const host = bareHost("member", {
      id: `case $1 in -un) echo me ;; -u) echo 1000 ;; -nG) ${groups} ;; esac`,
      sudo: 'shift; exec "$@"',
      usermod: "touch $here/joined",
      systemctl: "touch $here/started",
      docker:
        "[ -e $here/started ] && exec $here/docker.real \"$@\"; echo 'Cannot connect to the Docker daemon' >&2; exit 1",
    });

    const first = await host.setup();
    const made = host.changes();
    const second = await host.setup();

    expect(first).toMatchObject({
      code: 0,
      out: expect.stringMatching(/Start Docker.*Add me to the group/s),
    });
    expect(made.filter((line) => !line.startsWith("sudo"))).toEqual([
      "systemctl enable --now docker",
      "usermod -aG docker me",
    ]);
    expect(made.filter((line) => line.startsWith("sudo"))).toHaveLength(2);
    expect(second.code).toBe(0);
    expect(host.changes()).toEqual(made);
  });

  it("changes nothing for a user who may use Docker but not sudo, without systemd", async () => {
    const host = bareHost("ready", {
      id: "case $1 in -un) echo me ;; -u) echo 1000 ;; -nG) echo me ;; esac",
      sudo: "exit 1",
      docker: 'exec $here/docker.real "$@"',
    });

    const { code, err } = await host.setup();

    expect(code, err).toBe(0);
    expect(host.changes()).toEqual([]);
  });

  it("says what to run where the user may not, and refuses a system without apt-get", async () => {
    const user = bareHost("weak", {
      id: "case $1 in -un) echo me ;; -u) echo 1000 ;; -nG) echo me ;; esac",
      sudo: "echo 'a password is required' >&2; exit 1",
      "apt-get": APT,
    });
    const other = bareHost("other", {});

    const weak = await user.setup();
    const foreign = await other.setup();

    expect(weak).toMatchObject({
      code: 5,
      err: expect.stringMatching(/neither root.*apt-get.*docker\.io.*usermod -aG docker me/s),
    });
    expect(foreign).toMatchObject({ code: 5, err: expect.stringMatching(/no apt-get.*docs\.docker\.com/s) });
    expect([...user.changes(), ...other.changes()].filter((line) => !line.startsWith("sudo"))).toEqual([]);
  });
});
