/** What installs a project's packages. */
export type PackageManager = "npm" | "pnpm" | "yarn" | "bun";

/** The lock files that each of them writes. */
export const LOCK_FILES: Readonly<Record<PackageManager, readonly string[]>> = {
  npm: ["package-lock.json", "npm-shrinkwrap.json"],
  pnpm: ["pnpm-lock.yaml"],
  yarn: ["yarn.lock"],
  bun: ["bun.lock", "bun.lockb"],
};
