import { OptionsError, resolveOptions, type ServerOptions } from "./core/options.ts";
import { createService, type Service } from "./core/service.ts";

/**
 * Makes a service that hosts agents.
 *
 * @example
 * export default createServer({ agents: [auditor] });
 */
export function createServer(options: ServerOptions): Service {
  const resolved = resolveOptions(options);
  if (!resolved.store) throw new OptionsError("Option store is missing");
  return createService({
    options: resolved,
    plugins: [],
    openStore: resolved.store,
  });
}
