import type { ServerOptions } from "agent-control-service";
import { testServer as start, type TestServer } from "../src/testing.ts";

export * from "../src/testing.ts";

/** With `SVC_TEST_STORE=postgres` in a database, for each data folder in another schema; else as it is. */
export async function testServer(options: ServerOptions): Promise<TestServer> {
  if (process.env.SVC_TEST_STORE !== "postgres" || options.store !== undefined) return start(options);
  const { openInSchema } = await import("./_postgres.ts");
  return start({ ...options, store: openInSchema });
}
