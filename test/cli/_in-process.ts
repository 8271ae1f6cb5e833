import type { ServerOptions } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { main } from "../../src/cli/main.ts";

/** A service, and the command line that talks to it. */
export async function start(options: ServerOptions) {
  const server = await testServer(options);
  const svc = async (...args: string[]) => {
    const lines: string[] = [];
    const keep = (line: string) => void lines.push(line);
    const code = await main(args, {
      argv: args,
      self: [],
      cwd: server.dataDir,
      env: { SERVICE_URL: server.url, SERVICE_API_KEY: server.key },
      print: keep,
      note: keep,
      interactive: false,
      platforms: {},
    });
    return { code, text: lines.join("\n") };
  };
  return { server, svc, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}
