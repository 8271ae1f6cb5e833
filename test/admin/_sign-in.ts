/** What a person needs to reach a service. */
interface Address {
  readonly url: string;
  readonly key: string;
}

/** Signs in by the form; gives the cookie header of the session. */
export async function signIn(
  server: Address,
  name = "",
  headers: Readonly<Record<string, string>> = {},
): Promise<string> {
  const response = await postForm(server, "/admin/session", { key: server.key, name }, headers);
  if (response.status !== 303) throw new Error(`Signing in answered ${response.status}`);
  return cookieOf(response);
}

/** Sends a form as a page of the service does. */
export function postForm(
  server: Address,
  path: string,
  fields: Readonly<Record<string, string>> | URLSearchParams,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(server.url + path, {
    method: "POST",
    redirect: "manual",
    headers: { "content-type": "application/x-www-form-urlencoded", origin: server.url, ...headers },
    body: new URLSearchParams(fields).toString(),
  });
}

/** The name and value of the session cookie that an answer sets. */
export function cookieOf(response: Response): string {
  const cookie = response.headers.getSetCookie().find((one) => /^(__Secure-)?svc-admin=/.test(one));
  return cookie?.split(";")[0] ?? "";
}
