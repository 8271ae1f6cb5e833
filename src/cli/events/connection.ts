import type { CliContext } from "../context.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";
import type { ServiceClient } from "../job/service-client.ts";

export { CONNECTION_FLAGS };

/** Connects to the admin API, which has no prefix. */
export async function connectToAdmin(
  flags: Parameters<typeof connect>[0],
  context: CliContext,
): Promise<ServiceClient> {
  const { url } = await connect(flags, context);
  return connect({ ...flags, url: new URL(url).origin }, context);
}
