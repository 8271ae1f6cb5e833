// @alone
import { describe, expect, it } from "vitest";
import { createDeployTools } from "../../src/deploy/create-tools.ts";
import { pushImage } from "../../src/deploy/docker.ts";
import { proxyFor } from "../../src/deploy/proxy.ts";
import type { DeployTools } from "../../src/deploy/tools.ts";
import { Aws } from "../../src/plugins/platforms/aws/aws.ts";
import { findIdentity } from "../../src/plugins/platforms/cloud-run/credentials.ts";
import { Google } from "../../src/plugins/platforms/cloud-run/google.ts";
import { DigitalOcean } from "../../src/plugins/platforms/do-app-platform/digitalocean.ts";
import { serveHttp } from "../platforms/http-server.ts";
import { testHttps, testProxy } from "./_tunnel.ts";

function tools(
  env: Record<string, string>,
  some: Partial<Parameters<typeof createDeployTools>[0]> = {},
): DeployTools {
  return createDeployTools({
    cwd: process.cwd(),
    env: { HOME: "/nonexistent", PATH: process.env.PATH, ...env },
    sleep: async () => undefined,
    ...some,
  });
}

const AWS = { AWS_ACCESS_KEY_ID: "AKIAEXAMPLE", AWS_SECRET_ACCESS_KEY: "not-a-secret" };

/** One read of each provider, with the variables that make it come from `env`. */
const READS: Record<string, (at: DeployTools) => Promise<unknown>> = {
  Google: async (at) =>
    new Google(at, await findIdentity(at)).get("run", "/v2/projects/p/locations/r/services"),
  AWS: async (at) => new Aws(at, "us-east-1", "ecs").read("sts", "GetCallerIdentity"),
  DigitalOcean: async (at) => new DigitalOcean(at, at.env.DIGITALOCEAN_ACCESS_TOKEN ?? "").get("/v2/account"),
};
const LOGINS: Record<string, Record<string, string>> = {
  Google: { CLOUDSDK_AUTH_ACCESS_TOKEN: "token-of-yesterday" },
  AWS,
  DigitalOcean: { DIGITALOCEAN_ACCESS_TOKEN: "token-of-yesterday" },
};
const ENDPOINTS: Record<string, string> = {
  Google: "CLOUDSDK_API_ENDPOINT_OVERRIDES_RUN",
  AWS: "AWS_ENDPOINT_URL",
  DigitalOcean: "DIGITALOCEAN_API_URL",
};

const failureOf = (provider: string, env: Record<string, string>, some = {}) =>
  READS[provider]!(tools({ ...LOGINS[provider], ...env }, some)).catch((error: unknown) => error);

describe.each(Object.keys(READS))("%s", (provider) => {
  it("that refuses the connection is named as a host, with what to check", async () => {
    const gone = await serveHttp(async () => undefined);
    await gone.close();

    const error = await failureOf(provider, { [ENDPOINTS[provider]!]: gone.url });

    expect(error).toMatchObject({
      code: "unreachable",
      exitCode: 5,
      message: `127.0.0.1:${gone.port} could not be reached: it refused the connection`,
      fix: expect.stringMatching(/network and the DNS server; behind a proxy set HTTPS_PROXY/),
    });
  });

  it("whose name is not found is reported as such", async () => {
    const error = await failureOf(provider, { [ENDPOINTS[provider]!]: "https://api.nowhere.invalid" });

    expect(error).toMatchObject({
      code: "unreachable",
      message: expect.stringMatching(/^api\.nowhere\.invalid could not be reached: its name was not found/),
    });
  });

  it("is called through the proxy of the environment, whose refusal is reported as the proxy's", async () => {
    const proxy = await testProxy({ status: 407 });

    const error = await failureOf(provider, { HTTPS_PROXY: proxy.address });

    expect(proxy.asked[0]?.target).toMatch(
      /^(run\.googleapis|sts\.us-east-1\.amazonaws|api\.digitalocean)\.com:443$/,
    );
    expect(error).toMatchObject({
      code: "unreachable",
      detail: expect.stringMatching(
        /requires a login.*called through the proxy 127\.0\.0\.1:\d+, from HTTPS_PROXY/,
      ),
      fix: expect.stringContaining("NO_PROXY"),
    });
  });
});

describe("a login that has expired", () => {
  const answering = (status: number, body: unknown) => ({
    fetch: (async () =>
      new Response(JSON.stringify(body), {
        status,
        headers: { "content-type": "application/json" },
      })) as typeof fetch,
  });

  it("of Google ends with 5 and the command that logs in again", async () => {
    const body = {
      error: { code: 401, message: "Request had invalid credentials.", status: "UNAUTHENTICATED" },
    };

    expect(await failureOf("Google", {}, answering(401, body))).toMatchObject({
      code: "login_expired",
      exitCode: 5,
      fix: expect.stringContaining("gcloud auth print-access-token"),
    });
  });

  it("of DigitalOcean ends with 5 and the command that logs in again", async () => {
    const body = { id: "unauthorized", message: "Unable to authenticate you" };

    expect(await failureOf("DigitalOcean", {}, answering(401, body))).toMatchObject({
      code: "login_expired",
      exitCode: 5,
      fix: expect.stringContaining("doctl auth init"),
    });
  });

  it.each(["ExpiredToken", "InvalidClientTokenId"])("of AWS, as %s, ends with 5 too", async (code) => {
    const body = `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>no</Message></Error></ErrorResponse>`;
    const server = await serveHttp(async () => ({
      status: 403,
      body,
      headers: { "content-type": "text/xml" },
    }));

    const error = await failureOf("AWS", { AWS_ENDPOINT_URL: server.url });
    await server.close();

    expect(error).toMatchObject({
      code: "login_expired",
      exitCode: 5,
      fix: expect.stringContaining("aws sso login"),
    });
  });
});

describe("a push", () => {
  const push = (stderr: string) =>
    pushImage(
      Object.create(tools({ DOCKER_HOST: "none" }), {
        exec: { value: async () => ({ code: 1, stdout: "", stderr }) },
      }),
      "registry.example/hello-dev:one",
      { registry: "registry.example", username: "u", password: "p", renew: "log in like this" },
    ).catch((error: unknown) => error);

  it("that cannot reach the registry names it, and Docker's own proxy", async () => {
    const error = await push(
      'Get "https://registry.example/v2/": dial tcp: lookup registry.example: no such host',
    );

    expect(error).toMatchObject({
      code: "unreachable",
      exitCode: 5,
      message: expect.stringContaining("registry.example could not be reached"),
      fix: expect.stringContaining("proxy of its own engine"),
    });
  });

  it("whose login is refused is reported with how to log in again", async () => {
    expect(await push("unauthorized: authentication required")).toMatchObject({
      code: "login_expired",
      exitCode: 5,
      fix: "log in like this",
    });
  });

  it("that fails otherwise is reported as before", async () => {
    expect(await push("no space left on device")).toMatchObject({ code: "build_failed" });
  });
});

describe("the proxy of the environment", () => {
  const HTTPS_PROXY = "http://proxy.example:3128";

  it.each([
    ["https://run.googleapis.com/v2", { HTTPS_PROXY }, "proxy.example:3128"],
    ["https://run.googleapis.com", { https_proxy: "proxy.example:8080" }, "proxy.example:8080"],
    ["https://run.googleapis.com", { ALL_PROXY: HTTPS_PROXY }, "proxy.example:3128"],
    ["https://run.googleapis.com", { HTTPS_PROXY, NO_PROXY: "googleapis.com" }, undefined],
    ["https://run.googleapis.com", { HTTPS_PROXY, no_proxy: "other.example, .googleapis.com" }, undefined],
    [
      "https://run.googleapis.com",
      { HTTPS_PROXY, NO_PROXY: "run.googleapis.com:8443" },
      "proxy.example:3128",
    ],
    ["https://notgoogleapis.com", { HTTPS_PROXY, NO_PROXY: "googleapis.com" }, "proxy.example:3128"],
    ["https://run.googleapis.com", { HTTPS_PROXY, NO_PROXY: "*" }, undefined],
    ["https://127.0.0.1:8443", { HTTPS_PROXY }, undefined],
    ["http://service.example", { HTTPS_PROXY }, undefined],
    ["https://run.googleapis.com", {}, undefined],
  ])("%s with %j is requested through %s", (address, env, host) => {
    expect(proxyFor(address, env)?.host).toBe(host);
  });

  it("is refused if it is not an http proxy, without showing its value", () => {
    const ask = () => proxyFor("https://x.example", { HTTPS_PROXY: "socks5://me:planted-word@x:1" });

    expect(ask).toThrow(/HTTPS_PROXY is not the URL of an http proxy/);
    expect(ask).not.toThrow(/planted-word/);
  });

  it("forwards a request and its response, and gets its own login but not the request's", async () => {
    const server = await testHttps();
    const proxy = await testProxy(server);
    const at = tools({ HTTPS_PROXY: proxy.address.replace("//", "//me:pass%20word@") });

    const response = await at.fetch("https://service.example/path?a=b", {
      method: "POST",
      body: '{"some":"thing"}',
      headers: { authorization: "Bearer planted-token" },
    });

    expect(response.headers.get("x-own")).toBe("yes");
    expect(await response.json()).toEqual({
      method: "POST",
      url: "/path?a=b",
      host: "service.example",
      body: '{"some":"thing"}',
    });
    const login = `Basic ${Buffer.from("me:pass word").toString("base64")}`;
    expect(proxy.asked).toEqual([{ target: "service.example:443", login }]);
  });

  it("forwards a streamed body", async () => {
    const server = await testHttps();
    const proxy = await testProxy(server);
    const body = new Blob(["streamed ", "text"]).stream();

    const response = await tools({ HTTPS_PROXY: proxy.address }).fetch("https://service.example/", {
      method: "PUT",
      body,
      duplex: "half",
    } as RequestInit);

    expect(await response.json()).toMatchObject({ method: "PUT", body: "streamed text" });
  });

  it("is aborted with the step that the request belongs to", async () => {
    const server = await testHttps();
    const proxy = await testProxy(server);
    const stop = new AbortController();
    stop.abort(new Error("over"));

    const asked = tools({ HTTPS_PROXY: proxy.address }, { signal: () => stop.signal }).fetch(
      "https://service.example/",
    );

    await expect(asked).rejects.toThrow("over");
  });
});
