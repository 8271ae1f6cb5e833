import { userInfo } from "node:os";

/** Who runs the command; in containers the user often has a number but no name. */
export function userName(
  env: Readonly<Record<string, string | undefined>>,
  read: () => { readonly username: string } = userInfo,
): string {
  try {
    return read().username;
  } catch {
    return env.USER || "unknown";
  }
}
