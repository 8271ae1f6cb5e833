import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createReleases, createSecretStore, definePlatform } from "agent-control-service/deploy";
import * as v from "valibot";
import { onTestFinished } from "vitest";

/** A platform that stores what to run, and responds as healthy for it. */
export async function keepingPlatform(host: string, password: string) {
  const server = createServer((_request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ status: "healthy" }));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const running: { record?: string } = {};
  const secrets = new Map<string, string>();
  return definePlatform({
    name: "keeping",
    defaultRegion: "here",
    flags: v.object({}),
    connect: ({ serviceName }, tools) => ({
      ...createReleases(tools, {
        read: async () =>
          running.record === undefined
            ? undefined
            : { id: "1", url, status: "running", record: running.record },
        run: async (_release, record) => Object.assign(running, { record }),
      }),
      ...createSecretStore(tools, serviceName, {
        list: async () => [...secrets.keys()],
        put: async (name, value) => secrets.set(name, value),
        drop: async (name) => secrets.delete(name),
      }),
      preflight: async () => [],
      imageRef: (tag) => `${host}/team/${serviceName}:${tag}`,
      registryLogin: async () => ({ registry: host, username: "pusher", password }),
      remove: async () => undefined,
    }),
  });
}
