import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { beginSvc, PROCESS_TIME, project } from "./_svc.ts";

const { privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});
const KEY = "an-api-key-that-nobody-should-see-0123456789";
const ACCOUNT_KEY = "an-account-key-that-nobody-should-see";

/** Tells which secrets a program sees that an agent starts; never the secrets themselves, which would be masked. */
const CONTROLLER = `
import { execFileSync } from "node:child_process";
import { createServer, defineAgent } from "agent-control-service";
const shell = defineAgent({
  name: "Shell",
  version: "1.0.0",
  methods: {
    job_start: { run: () => null },
    chat: {
      run() {
        const seen = execFileSync(process.execPath, ["-p", "JSON.stringify(process.env)"]).toString();
        return {
          names: Object.keys(JSON.parse(seen)).filter((name) => name.startsWith("SERVICE_")).sort(),
          leaks: ["that-nobody-should-see", "PRIVATE KEY"].filter((text) => seen.includes(text)),
          own: process.env.AGENTS_OWN,
        };
      },
    },
  },
});
export const first = createServer({ agents: [shell], dataDir: "first" });
export default createServer({ agents: [shell] });
`;

describe("the secrets of a service", { timeout: PROCESS_TIME }, () => {
  it.each(["variables", "files"])(
    "from %s are not passed to the programs that agents start",
    async (source) => {
      const secrets = {
        SERVICE_API_KEY: KEY,
        SERVICE_ACCOUNT_API_KEY: ACCOUNT_KEY,
        SERVICE_RSA_PRIVATE_KEY: privateKey,
        AGENTS_OWN: "kept",
      };
      const files = Object.entries(secrets).map(([name, text]) => [`secrets/${name}`, text]);
      const cwd = await project({ "controller.ts": CONTROLLER, ...Object.fromEntries(files) });
      const env = {
        SERVICE_PORT: "0",
        SERVICE_ACCOUNT_WORKSPACE_ID: "w",
        SERVICE_ACCOUNT_API_URL: "http://127.0.0.1:9",
        ...(source === "files" ? { SERVICE_SECRETS_DIR: join(cwd, "secrets") } : secrets),
      };
      const service = beginSvc(["start"], { cwd, env });
      const [, url] = await service.prints(/service +(http:\S+)[\s\S]*Press Ctrl-C to stop/);

      // The second server of the process has the key that the first one read.
      const response = await fetch(`${url}/agents/shell/chat`, {
        method: "POST",
        headers: { "x-api-key": KEY, "content-type": "application/json" },
        body: JSON.stringify({ params: {} }),
      });

      expect(await response.json()).toEqual({
        names: [
          "SERVICE_ACCOUNT_API_URL",
          "SERVICE_ACCOUNT_WORKSPACE_ID",
          "SERVICE_PORT",
          ...(source === "files" ? ["SERVICE_SECRETS_DIR"] : []),
        ],
        leaks: [],
        own: "kept",
      });
    },
  );
});
