import { spawn } from "node:child_process";

/** What opens an address in the browser, by system. */
const OPENERS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ["open"],
  win32: ["rundll32", "url.dll,FileProtocolHandler"],
};

/** Opens an address in the browser of the person at this machine; resolves with what prevents it. */
export function openBrowser(
  url: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string | undefined> {
  const [program, ...args] = OPENERS[process.platform] ?? ["xdg-open"];
  return new Promise((resolve) => {
    const child = spawn(program, [...args, url], { env: { ...env }, stdio: "ignore", detached: true });
    child.once("error", (error: NodeJS.ErrnoException) =>
      resolve(error.code === "ENOENT" ? `the program ${program} is missing` : error.message),
    );
    child.once("spawn", () => {
      child.unref();
      resolve(undefined);
    });
  });
}
