import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { oidc } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { greeter } from "../_setup.ts";
import { startProvider } from "./_provider.ts";

export const ROLES = { "boss@example.com": "admin", "group:platform": "operator" } as const;

/** A port that nothing listens on. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A service whose people sign in at a real provider, which knows `ada`. */
export async function start(
  options: {
    readonly refresh?: boolean;
    readonly roles?: Parameters<typeof oidc>[0]["roles"];
    readonly plugins?: Parameters<typeof testServer>[0]["plugins"];
    /** Whether the service knows its public address. @default true */
    readonly isPublic?: boolean;
    readonly agents?: Parameters<typeof testServer>[0]["agents"];
    readonly logTo?: (line: string) => void;
  } = {},
) {
  const publicUrl = `http://127.0.0.1:${await freePort()}`;
  const provider = await startProvider(() => publicUrl, options);
  const ada = { email: "ada@example.com", email_verified: true, groups: ["platform"] };
  provider.accounts.set("ada", ada);
  const signIn = oidc({
    ...{ issuer: provider.issuer, clientId: "the-service", clientSecret: "a-client-secret-of-the-service" },
    roles: options.roles ?? ROLES,
  });
  const server = await testServer({
    agents: options.agents ?? [greeter],
    access: { signIn },
    ...(options.logTo && { logTo: options.logTo }),
    ...(options.plugins && { plugins: options.plugins }),
    ...(options.isPublic !== false && { publicUrl }),
    port: Number(new URL(publicUrl).port),
  });
  /** Where the provider is asked, with the cookie that the browser keeps meanwhile. */
  const leave = async (next = "/admin/jobs") => {
    const response = await fetch(`${server.url}/admin/sign-in/person?next=${encodeURIComponent(next)}`, {
      redirect: "manual",
    });
    const [kept = ""] = response.headers.getSetCookie();
    return { response, kept, cookie: kept.split(";")[0]!, to: response.headers.get("location") ?? "" };
  };
  const comeBack = (address: string, cookie: string) =>
    fetch(server.url + new URL(address).pathname + new URL(address).search, {
      redirect: "manual",
      headers: { cookie, accept: "text/html" },
    });
  return {
    server,
    provider,
    ada,
    leave,
    comeBack,
    /** Signs in; gives the response that the browser came back to. */
    as: async (account: string, next?: string) => {
      const { to, cookie } = await leave(next);
      return comeBack(await provider.signIn(to, account), cookie);
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
