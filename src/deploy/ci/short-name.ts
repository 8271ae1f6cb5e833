import { createHash } from "node:crypto";
import { toName } from "../name.ts";

/** What names of previews begin with. */
export const PREVIEW = "preview-";

/** Longest part of a preview's name that comes from its branch: the names of services are short on some platforms. */
const LONGEST = 16;
const DIGEST = 5;

/** The environment of a branch's preview, the same for the same branch and another for every other one. */
export function previewName(branch: string): string {
  return `${PREVIEW}${shortName(branch, LONGEST)}`;
}

/** Text as a name of limited length. What is changed or cut ends in a digest, so that two texts never share a name. */
export function shortName(text: string, longest: number): string {
  const name = toName(text);
  if (name === text && name.length <= longest) return name;
  const digest = BigInt(`0x${createHash("sha256").update(text).digest("hex").slice(0, 12)}`)
    .toString(36)
    .slice(-DIGEST)
    .padStart(DIGEST, "0");
  const start = name.slice(0, longest - DIGEST - 1).replace(/-+$/, "");
  return start === "" ? `x${digest}` : `${start}-${digest}`;
}
