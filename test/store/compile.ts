import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Compiles a C file beside this one; returns the path of the result. */
export function compile(name: string, folder: string, ...options: string[]): string {
  const source = fileURLToPath(new URL(name, import.meta.url));
  const target = join(folder, name.replace(/\.c$/, options.includes("-shared") ? ".so" : ""));
  execFileSync("cc", ["-O1", ...options, "-o", target, source, "-ldl"]);
  return target;
}
