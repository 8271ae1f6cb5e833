import { createHash } from "node:crypto";
import { mkdir, realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { readIfThere } from "../../core/base/read-if-there.ts";
import { writeAtomic } from "../atomic-file.ts";
import { DeployError } from "../errors.ts";

/**
 * Files of one project's `.deployment/` that this user created or accepted, by content. Recorded outside the
 * project, where the project's author cannot write: in the user's configuration folder, readable by the user
 * only.
 */
export interface TrustedFiles {
  /** Whether a file with exactly this text is known. */
  knows(file: string, text: string): boolean;
  /** Records the texts, replacing earlier records of these files. */
  trust(texts: Readonly<Record<string, string>>): Promise<void>;
}

interface Remembered {
  readonly project: string;
  /** SHA-256 by name below `.deployment/`. */
  readonly files: Readonly<Record<string, string>>;
}

/** Reads the record of a project; empty if there is none, or if it cannot be read. */
export async function readTrustedFiles(
  cwd: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<TrustedFiles> {
  const project = await realpath(cwd);
  const base = env.XDG_CONFIG_HOME || join(env.HOME || homedir(), ".config");
  const folder = join(base, "agent-control-service", "trusted");
  const path = join(folder, `${hashOf(project).slice(0, 32)}.json`);
  let files = await readRemembered(path, project);
  return {
    knows: (file, text) => files[file] === hashOf(text),
    async trust(texts) {
      const more = Object.entries(texts).map(([file, text]) => [file, hashOf(text)]);
      files = { ...files, ...Object.fromEntries(more) };
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 });
        await writeAtomic(path, `${JSON.stringify({ project, files }, null, 2)}\n`, 0o600);
      } catch (error) {
        throw new DeployError("failed", `${folder} cannot be written`, {
          detail: `${(error as Error).message}. It records which keys and compose files of this project are yours`,
          fix: "Make it writable, or set XDG_CONFIG_HOME to another folder",
          cause: error,
        });
      }
    },
  };
}

async function readRemembered(path: string, project: string): Promise<Remembered["files"]> {
  try {
    const { project: of, files } = JSON.parse((await readIfThere(path)) ?? "{}") as Partial<Remembered>;
    return of === project ? (files ?? {}) : {};
  } catch (error) {
    // An incomplete file, or one that others can read, is ignored: the user is asked again.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "EACCES") return {};
    throw error;
  }
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
