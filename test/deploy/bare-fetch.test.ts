import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const SRC = fileURLToPath(new URL("../../src", import.meta.url));

/** What asks the network without `reach`, and why a host that does not respond is still named, or is no failure. */
const ALLOWED: Readonly<Record<string, string>> = {
  "deploy/network.ts": "is `reach`",
  "deploy/create-tools.ts": "makes the tool",
  "deploy/deployment.ts": "passes the tool on",
  "deploy/health.ts": "a service that does not respond is a result",
  "deploy/service-client.ts": "a service that does not respond is a result",
  "plugins/platforms/cloud/rest.ts": "becomes a CloudError, which is retried and then explained",
  "plugins/platforms/aws/s3.ts": "becomes a CloudError, which is retried and then explained",
  "plugins/platforms/cloud-run/id-token.ts": "a token that cannot be had is a result",
  "plugins/platforms/server/session.ts": "an address that does not respond is a result",
  "plugins/platforms/server/check-inside.ts": "runs in the container",
  "plugins/platforms/server/data.ts": "runs in the container",
};

it("a host that a deployment cannot reach is named wherever it is asked", () => {
  const files = ["deploy", "plugins/platforms"].flatMap((folder) =>
    readdirSync(join(SRC, folder), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
  );

  const bare = files.filter(
    (file) =>
      file.endsWith(".ts") &&
      /\bfetch\(|\bfetch: tools\.fetch|\.fetch\b(?!:)/.test(readFileSync(join(SRC, file), "utf8")),
  );

  expect(bare.sort()).toEqual(Object.keys(ALLOWED).sort());
});
