import type { AddedRoute } from "agent-control-service/plugin";
import * as v from "valibot";
import { ErrorResponseSchema } from "../../src/core/models/error-response.ts";
import { fillBlindly, takesBody } from "./_examples.ts";
import type { Got, Sent } from "./_send.ts";
import { CANARIES, LIMIT, type World } from "./_world.ts";

type Target = Pick<World, "send" | "key" | "cookie" | "skipMinute" | "routes">;
/** Resolves with what went wrong: nothing, if the service holds. */
export type Attack = (target: Target, route: AddedRoute) => Promise<string[]>;

const JSON_ONLY = { accept: "application/json" };
const HEADERS = ["x-content-type-options", "referrer-policy", "content-security-policy"];

/**
 * Clients with no key, a wrong one, or the right one in a wrong place are refused, before anything else is
 * checked.
 */
const stranger: Attack = async (target, route) => {
  if (route.auth === "none") return [];
  const { path, ...request } = withType(fillBlindly(route));
  const { key, cookie } = target;
  const basic = Buffer.from(`api:${key}`).toString("base64");
  const tries: Record<string, Sent> = {
    "no key": { path, ...request },
    "an empty key": { path, ...add(request, { "x-api-key": "" }) },
    "a wrong key": { path, ...add(request, { "x-api-key": "wrong" }) },
    "the key twice": { path, ...add(request, { "x-api-key": `${key}, ${key}` }) },
    "the key in the query": { ...request, path: `${path}?api_key=${key}&X-API-Key=${key}&key=${key}` },
    "a wrong key as bearer": { path, ...add(request, { authorization: "Bearer wrong" }) },
    "the key as password": { path, ...add(request, { authorization: `Basic ${basic}` }) },
    "the key in a cookie": { path, ...add(request, { cookie: `X-API-Key=${key}; svc-admin=${key}` }) },
    "the key in the body": {
      path,
      method: route.method,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ api_key: key, "X-API-Key": key, key }),
    },
    "a session that nobody signed": { path, ...add(request, { cookie: `${cookie}x` }) },
    "too much, without a key": { path, ...request, body: Buffer.alloc(LIMIT * 2), chunked: true },
    ...(route.auth === "key" && { "a session": { path, ...add(request, { cookie }) } }),
  };
  target.skipMinute();
  return (await eachTry(target, tries, (got) => refused(got, 401, route))).concat(
    await eachTry(target, tries, (got) => (got.status === 401 ? [] : [`answered ${got.status} to a page`]), {
      accept: "text/html",
    }),
  );
};

/** A body that cannot be taken is refused before the handler sees it. */
const badBody: Attack = async (target, route) => {
  const request = add(withType(fillBlindly(route)), { "x-api-key": target.key });
  const json = { "content-type": "application/json" };
  const form = { "content-type": "application/x-www-form-urlencoded" };
  const own = takesBody(route) && !route.body ? form : json;
  const latin = own === form ? "name=M\xfcller" : '{"name":"M\xfcller"}';
  const wants = (status: number) => (got: Got) => refused(got, status, route);
  const codings = Object.fromEntries(
    ["gzip", "br", "x-made-up"].map((coding) => [
      `the coding ${coding}`,
      { ...add(request, { ...own, "content-encoding": coding }), body: "{}" },
    ]),
  );
  // The content of a file: of any type and length up to a limit of its own. A part of one is refused for what it lacks.
  if (route.streamsBody === true)
    return eachTry(target, codings, wants(route.method === "PATCH" ? 400 : 415));
  return [
    ...(await eachTry(
      target,
      {
        "too much, its length unsaid": { ...request, body: Buffer.alloc(LIMIT * 2, "x"), chunked: true },
        "too much, its length said": { ...request, body: Buffer.alloc(LIMIT * 2, "x") },
      },
      wants(413),
    )),
    ...(await eachTry(target, codings, wants(415))),
    ...(await eachTry(
      target,
      {
        "another charset": {
          ...add(request, { "content-type": `${own["content-type"]}; charset=iso-8859-1` }),
          body: "{}",
        },
      },
      wants(415),
    )),
    ...(await eachTry(
      target,
      {
        "text that is not UTF-8": { ...add(request, own), body: Buffer.from(latin, "latin1") },
        "the same in chunks": { ...add(request, own), body: Buffer.from(latin, "latin1"), chunked: true },
      },
      wants(400),
    )),
  ];
};

/** A page of another site changes nothing in the name of somebody who is signed in. */
const otherSite: Attack = async (target, route) => {
  if (route.auth !== "session" || route.method === "GET") return [];
  const request = add(withType(fillBlindly(route)), { cookie: target.cookie });
  const origins: Record<string, Record<string, string>> = {
    "another origin": { origin: "https://evil.example" },
    "no origin": {},
    "the origin null": { origin: "null" },
    "another site": { "sec-fetch-site": "cross-site" },
    "another host of this site": { "sec-fetch-site": "same-site" },
    "a typed address": { "sec-fetch-site": "none" },
  };
  const tries = Object.entries(origins).map(([name, headers]) => [name, add(request, headers)] as const);
  return eachTry(target, Object.fromEntries(tries), (got) => refused(got, 403, route));
};

/** Whatever is wrong, a program that asks for JSON gets the same body, or the one that its protocol has. */
const failure: Attack = async (target, route) => {
  const { path, ...request } = add(withType(fillBlindly(route)), { "x-api-key": target.key });
  const wants =
    (statuses: readonly number[], of?: AddedRoute) =>
    (got: Got): string[] =>
      statuses.includes(got.status) ? refused(got, got.status, of) : [`answered ${got.status}`];
  // Protocols with errors of their own have no 422.
  const unfit = route.errors ? 400 : 422;
  // Another path may be one of another route, with errors of its own.
  const others = target.routes.filter(({ errors }) => errors !== undefined);
  const elsewhere = (statuses: readonly number[]) => (got: Got) =>
    others.some((other) => wants(statuses, other)(got).length === 0) ? [] : wants(statuses)(got);
  const problems = await eachTry(
    target,
    { "a method that nothing takes": { ...request, path, method: "PROPFIND" } },
    wants([405], route),
  );
  problems.push(
    ...(await eachTry(
      target,
      { "a path below": { ...request, path: `${path}/x/y/z/nothing` } },
      elsewhere([404, 405]),
    )),
    ...(await eachTry(
      target,
      { "a broken path": { ...request, path: `${path}/%zz` } },
      elsewhere([400, 404]),
    )),
  );
  problems.push(
    ...(await eachTry(target, { "ids of nothing": { ...request, path } }, (got) => asJson(got, route))),
  );
  if (route.body) {
    problems.push(
      ...(await eachTry(target, { "no JSON": { ...request, path, body: "{" } }, wants([400], route))),
      ...(await eachTry(target, { "a list": { ...request, path, body: '[["x"]]' } }, wants([unfit], route))),
    );
  }
  if (route.query) {
    const twice = { ...request, path: `${path}?limit=1&limit=1` };
    problems.push(...(await eachTry(target, { "a parameter twice": twice }, wants([404, unfit], route))));
  }
  return problems;
};

export const ATTACKS: Readonly<Record<string, Attack>> = { stranger, badBody, otherSite, failure };

/** What every answer must have and must not have, whatever it is. */
export function inspect({ status, headers, text }: Got): string[] {
  const missing = HEADERS.filter((name) => headers[name] === undefined).map((name) => `has no ${name}`);
  const policy = headers["content-security-policy"] ?? "";
  const framed = policy.includes("frame-ancestors 'none'") ? [] : ["can be framed"];
  const loose =
    !policy.includes("default-src 'none'") || policy.includes("unsafe") ? ["has a loose policy"] : [];
  const out = leaks(`${JSON.stringify(headers)}\n${text}`).map((name) => `holds ${name}`);
  return [
    ...missing,
    ...framed,
    ...loose,
    ...out,
    ...(status >= 500 && status !== 503 ? [`answered ${status}`] : []),
  ];
}

/** Names of the canaries that a text holds, in any form in which they can be read. */
export function leaks(text: string): string[] {
  return Object.entries(CANARIES).flatMap(([name, secret]) => {
    const forms = [
      secret,
      JSON.stringify(secret).slice(1, -1),
      encodeURIComponent(secret),
      secret.replaceAll('"', "&quot;"),
      secret.replaceAll('"', "&#34;"),
      Buffer.from(secret).toString("base64").slice(0, -4),
      Buffer.from(secret).toString("hex"),
    ];
    return forms.some((form) => text.includes(form)) ? [name] : [];
  });
}

function refused(got: Got, status: number, route?: AddedRoute): string[] {
  if (got.status !== status) return [`answered ${got.status}, not ${status}`];
  if (!got.headers["content-type"]?.startsWith("application/json"))
    return [`answered ${got.headers["content-type"]}, not JSON`];
  const body: unknown = JSON.parse(got.text);
  if (route?.errors) {
    return v.is(route.errors.schema, body) ? [] : ["is no error of its protocol"];
  }
  if (!v.is(v.strictObject(ErrorResponseSchema.entries), body)) return ["is no ErrorResponse"];
  return body.status_code === status ? [] : [`says ${body.status_code}`];
}

/** A failure, if it is one, has the body that clients of the route read. */
function asJson(got: Got, route: AddedRoute): string[] {
  return got.status >= 400 ? refused(got, got.status, route) : [];
}

async function eachTry(
  target: Target,
  tries: Readonly<Record<string, Sent>>,
  judge: (got: Got) => string[],
  headers: Readonly<Record<string, string>> = JSON_ONLY,
): Promise<string[]> {
  const found: string[] = [];
  for (const [name, request] of Object.entries(tries)) {
    const got = await target.send(add(request, headers));
    found.push(...[...judge(got), ...inspect(got)].map((problem) => `${name}: ${problem}`));
  }
  return found;
}

function withType({ type, ...request }: Sent & { readonly type?: string }): Sent {
  return type === undefined ? request : add(request, { "content-type": type });
}

function add<T extends Partial<Sent>>(request: T, headers: Readonly<Record<string, string>>): T {
  return { ...request, headers: { ...request.headers, ...headers } };
}
