import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { describe, it } from "vitest";

/** What a test may need of the machine, and how to tell that it is there: the reason why not, or `undefined`. */
const CHECKS = {
  chromium: () => (findChromium() === undefined ? "no Chromium found" : undefined),
  docker: () => (succeeds("docker", ["info"]) ? undefined : "no container runtime answers"),
  buildkit: () => (findBuildKit() === undefined ? "no docker command with BuildKit found" : undefined),
  registry: () =>
    succeeds("sh", ["-c", "command -v docker-registry && command -v htpasswd"])
      ? undefined
      : "no docker-registry and htpasswd commands found",
  registries: () =>
    succeeds("sh", ["-c", "getent hosts us-central1-docker.pkg.dev | grep -q '^127[.]'"])
      ? undefined
      : "no registry replaces those of the clouds",
  root: () => (process.getuid?.() === 0 ? undefined : "not root"),
  tmpfs: () => (process.getuid?.() === 0 && mountsTmpfs() ? undefined : "cannot mount a tmpfs"),
  prlimit: () => (succeeds("prlimit", ["--version"]) ? undefined : "no prlimit command found"),
  loop: () => (process.getuid?.() === 0 && hasLoop() ? undefined : "cannot mount through a loop device"),
  cc: () => (succeeds("cc", ["--version"]) ? undefined : "no C compiler found"),
  engine: () =>
    process.getuid?.() === 0 &&
    succeeds("sh", ["-c", "command -v dockerd && command -v docker && ip link"]) &&
    mountsTmpfs()
      ? undefined
      : "cannot start a container engine (root, dockerd, ip, a tmpfs)",
  aws: () => (succeeds("aws", ["--version"]) ? undefined : "no aws command found"),
  gcloud: () => (succeeds("sh", ["-c", "command -v gcloud"]) ? undefined : "no gcloud command found"),
  postgres: () => (findPostgres() === undefined ? "no Postgres server (initdb, postgres) found" : undefined),
  pgbouncer: () =>
    succeeds("sh", ["-c", "command -v pgbouncer"]) ? undefined : "no pgbouncer command found",
  namespaces: () =>
    process.getuid?.() === 0 && hasNamespaces()
      ? undefined
      : "no network and processes of one's own (root, unshare, nsenter, ip, script)",
  sshd: () => (findSshd() === undefined ? "no sshd found, or not root" : undefined),
  caddy: () => (findCaddy() === undefined ? "no caddy command found" : undefined),
  faketime: () => (findFaketime() === undefined ? "no libfaketime found" : undefined),
  linux: () => (process.platform === "linux" ? undefined : "not Linux"),
} as const;

export type Requirement = keyof typeof CHECKS;

/**
 * Gives `describe` and `it` that run where the machine has what they need. Elsewhere they are skipped with the reason printed
 * and in their name, or fail where the environment variable `SVC_REQUIRE` lists the requirement.
 *
 * @example
 * requirement("root").it("mounts a small disk", async () => {});
 */
export function requirement(...needs: Requirement[]) {
  waitForProvided();
  const demanded = (process.env.SVC_REQUIRE ?? "").split(",").map((need) => need.trim());
  const missing = needs.flatMap((need) => {
    const reason = CHECKS[need]();
    return reason === undefined ? [] : [{ need, reason }];
  });
  if (missing.length === 0) return { describe, it, met: true };

  const reason = missing.map((each) => each.reason).join(", ");
  if (missing.some(({ need }) => demanded.includes(need))) {
    const fail = (name: string) =>
      it(name, () => {
        throw new Error(`SVC_REQUIRE demands this test, but: ${reason}`);
      });
    return { describe: (name: string, _tests: () => void) => fail(name), it: failing(fail), met: false };
  }
  // Reporters count what is skipped and omit its name.
  const told = (name: string) => {
    console.warn(`skipped: ${name}: ${reason}`);
    return `${name} (skipped: ${reason})`;
  };
  return {
    describe: (name: string, tests: () => void) => describe.skip(told(name), tests),
    it: (name: string, test: () => unknown, timeout?: number) =>
      it.skip(told(name), test as () => void, timeout),
    met: false,
  };
}

/** While `.ci/run` installs programs in the background nobody can tell what is missing. */
function waitForProvided(): void {
  const { SVC_PROVIDED: file } = process.env;
  while (file && !existsSync(file)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
}

/** The path of a Chromium that tests can drive. */
export function findChromium(): string | undefined {
  const places = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  return [process.env.CHROMIUM_PATH, ...places].find((path) => path !== undefined && existsSync(path));
}

/** The server of OpenSSH, if it may be run here: only root can let others log in. */
export function findSshd(): string | undefined {
  const places = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"];
  return process.getuid?.() === 0 ? places.find((path) => existsSync(path)) : undefined;
}

/** The library that gives a program another clock, where it is loaded first. */
export function findFaketime(): string | undefined {
  const places = ["x86_64-linux-gnu", "aarch64-linux-gnu"].map(
    (arch) => `/usr/lib/${arch}/faketime/libfaketime.so.1`,
  );
  return places.find((path) => existsSync(path));
}

/** The program of Caddy, a web server. */
export function findCaddy(): string | undefined {
  return ["/usr/bin/caddy", "/usr/local/bin/caddy"].find((path) => existsSync(path));
}

const DEBIAN_POSTGRES = "/usr/lib/postgresql";

/** The folder of the programs of a Postgres server: of the newest that Debian has, or in the path. */
export function findPostgres(): string | undefined {
  const versions = existsSync(DEBIAN_POSTGRES) ? readdirSync(DEBIAN_POSTGRES) : [];
  const newest = versions.sort((a, b) => Number(b) - Number(a));
  const folders = newest.map((version) => `${DEBIAN_POSTGRES}/${version}/bin`);
  return [...folders, ...(process.env.PATH ?? "").split(":")].find((folder) =>
    ["initdb", "postgres"].every((program) => existsSync(`${folder}/${program}`)),
  );
}

/** A docker command that builds with BuildKit, by its buildx plugin or, in older clients, by itself. */
export function findBuildKit(): string | undefined {
  return (process.env.PATH ?? "")
    .split(":")
    .map((folder) => `${folder}/docker`)
    .filter((path) => existsSync(path))
    .find((docker) => succeeds("sh", ["-c", `DOCKER_BUILDKIT=1 '${docker}' build --help`]));
}

function failing(fail: (name: string) => void) {
  return (name: string, _test: () => unknown, _timeout?: number) => fail(name);
}

function succeeds(command: string, args: string[]): boolean {
  return spawnSync(command, args, { stdio: "ignore", timeout: 30_000 }).status === 0;
}

function mountsTmpfs(): boolean {
  const script =
    'd=$(mktemp -d) && mount -t tmpfs -o size=64k tmpfs "$d" && umount "$d"; s=$?; rmdir "$d"; exit $s';
  return succeeds("sh", ["-c", script]);
}

function hasLoop(): boolean {
  const script =
    'f=$(mktemp) && truncate -s 8M "$f" && mkfs.ext4 -q "$f" && d=$(mktemp -d) && mount -o loop "$f" "$d" && umount "$d"; s=$?; rm -rf "$f" "$d"; exit $s';
  return succeeds("sh", ["-c", script]);
}

function hasNamespaces(): boolean {
  const args = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c"];
  const script =
    "ip link set lo up && mount -t tmpfs tmpfs /srv && command -v nsenter && command -v script && command -v openssl";
  return succeeds("unshare", [...args, script]);
}
