import { isMap, isPair, parseDocument, visit } from "yaml";
import { DeployError } from "./errors.ts";

/** Lines of an `.npmrc` or `.yarnrc` that contain a credential. */
const CREDENTIAL_LINE =
  /^[^#;=]*(?:_auth|_authToken|_password|certfile|keyfile|\bkey|\bcert)"?\s*[=\s]\s*\S|^[^#;]*(?:https?:)?\/\/[^\s/@]+@/i;
/** Settings of Yarn 2 and later that contain one. */
const YARN_SETTINGS = /^npmAuth(?:Token|Ident)$/;

/** Files with install settings; a login in them must not end up in a layer. */
export const SETTINGS_FILES = [".npmrc", ".yarnrc", ".yarnrc.yml"] as const;

/** The text of such a file without its credentials; unchanged if it has none. */
export function withoutCredentials(file: string, text: string): string {
  return file === ".yarnrc.yml" ? yarnSettings(text) : lines(text);
}

function lines(text: string): string {
  const all = text.split(/(?<=\n)/);
  return all.filter((line) => !CREDENTIAL_LINE.test(line)).join("");
}

function yarnSettings(text: string): string {
  const document = parseDocument(text);
  if (document.errors.length > 0)
    throw new DeployError("usage", "The .yarnrc.yml cannot be read", {
      detail: document.errors[0]?.message,
      outcome: "Nothing was built",
      fix: "Fix the file: svc removes logins from the copy that a build gets",
    });
  let found = false;
  visit(document, {
    Pair(_key, pair) {
      if (!isPair(pair) || !YARN_SETTINGS.test(String(pair.key))) return undefined;
      found = true;
      return visit.REMOVE;
    },
  });
  // A map without entries would be parsed as null.
  if (!found) return text;
  visit(document, {
    Map(_key, map) {
      if (isMap(map) && map.items.length === 0) map.flow = true;
    },
  });
  return document.toString();
}
