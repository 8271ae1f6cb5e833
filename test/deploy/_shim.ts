import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { findBuildKit } from "../_require.ts";

export interface Shim {
  /** The environment of this process, with the shim's programs found first. */
  readonly env: Record<string, string>;
  /** Folder of the Docker configuration of the user that this environment represents. */
  readonly dockerFolder: string;
  /** The words of each call so far. */
  calls(): string[][];
}

/** Which plugins the shim's docker has. Of what the real one lacks it does the same by its own means. */
export interface Plugins {
  readonly buildx: boolean;
  readonly compose: boolean;
}

/** A `docker` and a `docker-compose` that write down their words and hand on to those of this machine. */
export function shim(plugins: Plugins): Shim {
  const folder = mkdtempSync(join(tmpdir(), "svc-shim-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const log = join(folder, "calls");
  const bin = join(folder, "bin");
  const home = join(folder, "home");
  mkdirSync(bin);
  mkdirSync(join(home, ".docker"), { recursive: true });
  const docker = find("docker");
  const compose = find("docker-compose") ?? `${docker} compose`;
  const hasBuildx = succeeds(`${docker} buildx version`);
  const hasCompose = succeeds(`${docker} compose version`);
  const note = (name: string) => `{ printf '%s\\037' ${name} "$@"; echo; } >> '${log}'`;
  const missing = 'echo "docker: unknown command: docker $1" >&2; exit 1';
  // Without the plugin: the builder that older clients bring along, which knows the words behind these three.
  const build = `shift 5; DOCKER_BUILDKIT=1 exec ${findBuildKit()} build "$@"`;
  const script = `#!/bin/sh
${note("docker")}
case "$1 $2" in
  "buildx version") ${plugins.buildx ? "echo v0; exit 0" : missing};;
  "buildx build") ${plugins.buildx ? (hasBuildx ? `exec ${docker} "$@"` : build) : missing};;
  "compose "*) ${plugins.compose ? (hasCompose ? `exec ${docker} "$@"` : `shift; exec ${compose} "$@"`) : missing};;
esac
exec ${docker} "$@"
`;
  writeFileSync(join(bin, "docker"), script, { mode: 0o755 });
  writeFileSync(join(bin, "docker-compose"), `#!/bin/sh\n${note("docker-compose")}\nexec ${compose} "$@"\n`, {
    mode: 0o755,
  });
  return {
    env: { ...(process.env as Record<string, string>), PATH: `${bin}:${process.env.PATH}`, HOME: home },
    dockerFolder: join(home, ".docker"),
    calls: () =>
      !existsSync(log)
        ? []
        : readFileSync(log, "utf8")
            .split("\u001f\n")
            .filter(Boolean)
            .map((line) => line.split("\u001f")),
  };
}

function find(program: string): string | undefined {
  try {
    return execFileSync("sh", ["-c", `command -v ${program}`], { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
}

function succeeds(command: string): boolean {
  try {
    execFileSync("sh", ["-c", command], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
