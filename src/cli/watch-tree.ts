import { type FSWatcher, readdirSync, watch } from "node:fs";
import { join, relative } from "node:path";

const SKIPPED = new Set(["node_modules", "dist", "data", "coverage"]);
/** Editors save in several steps. */
const QUIET_TIME = 150;

export interface WatchTold {
  readonly onChange: (file: string) => void;
  /** A folder that cannot be watched. */
  readonly onTrouble: (folder: string, error: unknown) => void;
}

/** Reports changed files below a folder, shortly after the last change; call the result to stop. */
export function watchTree(root: string, { onChange, onTrouble }: WatchTold): () => void {
  const watchers = new Map<string, FSWatcher>();
  let timer: NodeJS.Timeout | undefined;

  const add = (folder: string): void => {
    if (watchers.has(folder)) return;
    const watcher = watch(folder, (_, name) => {
      if (name === null || isSkipped(name)) return;
      scan(root);
      clearTimeout(timer);
      timer = setTimeout(() => onChange(relative(root, join(folder, name))), QUIET_TIME);
    });
    watcher.on("error", () => forget(folder));
    watchers.set(folder, watcher);
  };
  const forget = (folder: string): void => {
    watchers.get(folder)?.close();
    watchers.delete(folder);
  };
  const scan = (folder: string): void => {
    try {
      add(folder);
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        if (entry.isDirectory() && !isSkipped(entry.name)) scan(join(folder, entry.name));
      }
    } catch (error) {
      forget(folder);
      // Removed in the meantime, or cannot be watched, for example because inotify watches have run out.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") onTrouble(folder, error);
    }
  };

  scan(root);
  return () => {
    clearTimeout(timer);
    for (const folder of [...watchers.keys()]) forget(folder);
  };
}

function isSkipped(name: string): boolean {
  return name.startsWith(".") || name.endsWith("~") || SKIPPED.has(name);
}
