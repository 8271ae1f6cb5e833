import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** A container engine beside the one of this machine, on a small disk of its own. */
export interface Engine {
  /** Its address, for `DOCKER_HOST`. */
  readonly host: string;
  /** Runs docker on it; the text that it prints. */
  docker(...args: string[]): string;
  /** Ends it as a crash does. Its containers run on until it is started. */
  kill(): void;
  start(): Promise<void>;
  /** Leaves no byte on its disk. */
  fill(): void;
  free(): void;
  /** Ends it, and removes everything of it. */
  close(): Promise<void>;
}

/** Starts an engine whose disk has this many bytes. Requires `engine`. */
export async function startEngine(bytes: number): Promise<Engine> {
  const folder = mkdtempSync(join(tmpdir(), "svc-engine-"));
  const at = (name: string) => join(folder, name);
  const data = at("data");
  const host = `unix://${at("socket")}`;
  const number = Math.floor(Math.random() * 250);
  const bridge = `svcbr${number}`;
  const run = (program: string, ...args: string[]) => execFileSync(program, args, { stdio: "ignore" });
  mkdirSync(data);
  writeFileSync(at("config.json"), "{}");
  run("mount", "-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", data);
  run("ip", "link", "add", "name", bridge, "type", "bridge");
  run("ip", "addr", "add", `10.213.${number}.1/24`, "dev", bridge);
  run("ip", "link", "set", bridge, "up");
  const pidIn = (name: string) => (existsSync(at(name)) ? Number(readFileSync(at(name), "utf8")) : undefined);
  const answers = () =>
    spawnSync("docker", ["info"], { env: { ...process.env, DOCKER_HOST: host }, stdio: "ignore" }).status ===
    0;

  // As on a server: containers outlive the engine's daemon.
  writeFileSync(at("containerd.toml"), 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n');
  const containerd = spawn(
    "containerd",
    [
      ...["--config", at("containerd.toml"), "--root", join(data, "containerd"), "--state", at("state")],
      ...["--address", at("containerd.sock"), "--log-level", "error"],
    ],
    { stdio: "ignore" },
  );
  while (!existsSync(at("containerd.sock"))) await delay(50);

  async function start(): Promise<void> {
    rmSync(at("pid"), { force: true });
    const words = [
      ...["--data-root", data, "--exec-root", at("exec"), "--pidfile", at("pid"), "--host", host],
      ...["--bridge", bridge, "--iptables=false", "--ip-forward=false", "--ip-masq=false"],
      ...["--config-file", at("config.json"), "--containerd", at("containerd.sock")],
    ];
    const log = openSync(at("log"), "a");
    const engine = spawn("dockerd", words, { stdio: ["ignore", log, log], detached: true });
    closeSync(log);
    engine.unref();
    while (!answers()) {
      if (engine.exitCode !== null)
        throw new Error(`dockerd: ${readFileSync(at("log"), "utf8").slice(-2000)}`);
      await delay(100);
    }
  }
  await start();

  return {
    host,
    docker: (...args) =>
      execFileSync("docker", args, {
        env: { ...process.env, DOCKER_HOST: host },
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
      }).trim(),
    kill: () => process.kill(pidIn("pid") ?? 0, "SIGKILL"),
    start,
    fill() {
      const { bavail, bsize } = statfsSync(data);
      spawnSync("fallocate", ["--length", String(bavail * bsize), join(data, "filler")]);
      // What was freed in between.
      spawnSync("dd", ["if=/dev/zero", `of=${join(data, "filler-2")}`, "bs=4096"], { stdio: "ignore" });
    },
    free() {
      for (const name of ["filler", "filler-2"]) rmSync(join(data, name), { force: true });
    },
    async close() {
      const ids = spawnSync("docker", ["--host", host, "ps", "--all", "--quiet"], { encoding: "utf8" });
      const all = ids.stdout.split("\n").filter(Boolean);
      if (all.length > 0) spawnSync("docker", ["--host", host, "rm", "--force", ...all]);
      for (const pid of [pidIn("pid"), containerd.pid])
        while (pid !== undefined && isAlive(pid)) {
          process.kill(pid, "SIGTERM");
          await delay(200);
        }
      const mounts = readFileSync("/proc/mounts", "utf8").split("\n");
      const mine = mounts
        .map((line) => line.split(" ")[1] ?? "")
        .filter((path) => path.startsWith(`${folder}/`));
      for (const path of mine.reverse()) spawnSync("umount", ["--lazy", path]);
      spawnSync("ip", ["link", "delete", bridge]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function isAlive(pid: number): boolean {
  // A process that has ended and whose parent has not asked for it yet has no command line.
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8") !== "";
  } catch {
    return false;
  }
}
