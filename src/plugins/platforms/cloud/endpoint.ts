import { isLoopback } from "../../../core/base/loopback.ts";
import { DeployError } from "../../../deploy/errors.ts";

/**
 * An endpoint that replaces a provider's own, without a trailing slash. Plain http only on this machine
 * itself.
 */
export function checkEndpoint(text: string, variable: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:"))
    throw new DeployError("usage", `${variable} is not a URL: ${text}`, {
      fix: `Set ${variable} to a full URL, such as https://example.com, or unset it`,
    });
  if (url.protocol === "http:" && !isLoopback(url.hostname))
    throw new DeployError("usage", `${variable} would send credentials over plain http to ${url.host}`, {
      fix: `Use https in ${variable}, or unset it; plain http is accepted only for this machine`,
    });
  return text.replace(/\/+$/, "");
}
