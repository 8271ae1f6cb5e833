/** A secret found in a file, by its format. */
export interface SecretForm {
  /** What it is, as text. */
  readonly kind: string;
  readonly privateKey: boolean;
}

/** Bytes from the start of a file that are checked: files with secrets are small. */
export const SCANNED_BYTES = 1024 * 1024;

/**
 * A key's text follows its header, in lines or in a string with `\n`; without it the header is only
 * mentioned.
 */
const PRIVATE_KEY =
  /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr]|[A-Za-z-]+: \S+){1,40}[A-Za-z0-9+/=]{32}/;
const PUTTY_KEY = /^PuTTY-User-Key-File-\d: /;

const TOKENS: readonly (readonly [string, RegExp])[] = [
  ["an AWS access key", /\b(?:AKIA|ASIA)(?![A-Z0-9]*EXAMPLE)[A-Z2-7]{16}\b/],
  ["a GitHub token", /\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{60,}\b/],
  ["a GitLab token", /\bglpat-[A-Za-z0-9_-]{20,}/],
  ["an npm token", /\bnpm_[A-Za-z0-9]{36}\b/],
  ["a Slack token", /\bxox[abposr]-[A-Za-z0-9-]{20,}/],
  ["a Stripe key", /\b[sr]k_live_[A-Za-z0-9]{20,}/],
  ["an OpenAI or Anthropic key", /\bsk-(?:ant|proj|svcacct)-[A-Za-z0-9_-]{32,}|\bsk-[A-Za-z0-9]{48}\b/],
  ["a Google API key", /\bAIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])/],
  ["a DigitalOcean token", /\bdo[por]_v1_[a-f0-9]{64}\b/],
  ["a Vault token", /\bhv[sb]\.[A-Za-z0-9_-]{24,}/],
  ["a SendGrid key", /\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}/],
  ["a Hugging Face token", /\bhf_[A-Za-z0-9]{34}\b/],
];

/** The secret that a text contains, private keys first; the value itself is never part of the result. */
export function findSecret(text: string): SecretForm | undefined {
  if (/"private_key"\s*:\s*"-----BEGIN/.test(text) && PRIVATE_KEY.test(text))
    return { kind: "a private key of a Google service account", privateKey: true };
  if (PRIVATE_KEY.test(text) || PUTTY_KEY.test(text)) return { kind: "a private key", privateKey: true };
  const token = TOKENS.find(([, form]) => form.test(text));
  return token && { kind: token[0], privateKey: false };
}
