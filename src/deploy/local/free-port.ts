import { createServer } from "node:net";
import { DeployError } from "../errors.ts";
import type { LocalRun } from "./local-run.ts";

/** Rejects if anything other than this service listens on the port. */
export async function checkPort({ options, tools, project }: LocalRun): Promise<void> {
  const { port } = options;
  if (await isFree(port)) return;
  const format = '{{.Names}}\t{{.Label "com.docker.compose.project"}}';
  const result = await tools.exec("docker", ["ps", "--filter", `publish=${port}`, "--format", format]);
  const [name = "", owner = ""] = (result.stdout.trim().split("\n")[0] ?? "").split("\t");
  if (owner === project) return;
  throw new DeployError("preflight", `Port ${port} is in use`, {
    detail: name === "" ? "Another program listens on it" : `Container "${name}" listens on it`,
    outcome: "Nothing was built",
    fix: `Stop that program, or choose another port: --port ${port + 1}`,
  });
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(false);
      else reject(error);
    });
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
