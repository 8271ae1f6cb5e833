import { randomBytes } from "node:crypto";
import type { CliContext } from "./context.ts";
import { describeReceived } from "./control.ts";

/** Default port of `svc control`; used only when it is free. */
const PORT = 8100;

/** Starts a control system beside the service; resolves with the variables that make it the service's account. */
export async function startWithControl(context: CliContext): Promise<Record<string, string>> {
  const { startControlServer } = await import("./control/control-server.ts");
  const apiKey = randomBytes(18).toString("base64url");
  const options = {
    host: "127.0.0.1",
    workspace: "dev",
    apiKey,
    order: { mode: "ok" },
    keep: 20_000,
    onReceived: (item: Parameters<typeof describeReceived>[0]) => context.print(describeReceived(item)),
  } as const;
  const server = await startControlServer({ ...options, port: PORT }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== "EADDRINUSE") throw error;
      return startControlServer({ ...options, port: 0 });
    },
  );
  context.print(
    `Development control system at ${server.url}/ (its page shows messages and can make it fail)`,
  );
  return {
    SERVICE_ACCOUNT_API_URL: server.url,
    SERVICE_ACCOUNT_WORKSPACE_ID: options.workspace,
    SERVICE_ACCOUNT_API_KEY: apiKey,
  };
}
