import { userInfo } from "node:os";

/** Who runs the command; in containers the system often knows the user by number only. */
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
