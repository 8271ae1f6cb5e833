import { createPrivateKey, createPublicKey, hash, type KeyObject } from "node:crypto";
import { listProblems, MOST_TOLD } from "../base/describe-issue.ts";
import { ServiceError } from "../base/errors.ts";
import { parseJson } from "../base/parse-json.ts";
import type { Redactor } from "../base/redactor.ts";
import { isAuthenticated, type Renewal, renew, type SealOptions, seal, unseal } from "./envelope.ts";
import type { HostedAgent } from "./registry.ts";

/** Result of a check of encrypted parameters; contains names, never values. */
export interface ParametersCheck {
  readonly valid: boolean;
  readonly message: string;
  readonly errors: readonly string[];
  readonly invalid_parameters: Readonly<Record<string, string>>;
}

/** RSA keys of a service, PEM: parameters are encrypted for the first, and decrypted with all. */
export type RsaKeys = readonly [present: string, ...former: string[]];

interface ParsedKeys {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly former: readonly KeyObject[];
  readonly all: readonly KeyObject[];
}

/** Decrypted values by parameter name. */
export type OpenParameters = Record<string, string>;
type Environment = Readonly<Record<string, string | undefined>>;

/** Which envelopes are accepted from clients: all, or only authenticated ones. */
export const ACCEPTED_ENVELOPES = ["all", "v2"] as const;
export type AcceptedEnvelopes = (typeof ACCEPTED_ENVELOPES)[number];

/**
 * An envelope that cannot be opened or contains no parameters: the message is the same whatever the reason.
 */
export class UnreadableParameters extends ServiceError {
  constructor() {
    super("invalid_parameters", "The encrypted agent parameters cannot be read", {
      detail:
        "Encrypt JSON, a list of {name, value} or a map of name to value, with this service's current public key (GET /utils/public_key).",
    });
  }
}

/** Parameters that are stored for an agent, and that the present RSA key does not open: no caller can send others. */
export class UnreadableStoredParameters extends ServiceError {
  constructor(slug: string) {
    super("invalid_parameters", `The parameters that are stored for agent "${slug}" cannot be read`, {
      detail:
        "They were encrypted for another RSA key: store them again, or start the service with that key as SERVICE_PREVIOUS_RSA_PRIVATE_KEY.",
    });
  }
}

/** Encrypts and decrypts agent parameters. What it decrypts is for the agent's handler; the redactor learns every value. */
export class Parameters {
  readonly #given: { readonly rsaPrivateKeys: RsaKeys };
  #parsed: ParsedKeys | undefined;
  #names: readonly string[] | undefined;
  readonly #redactor: Redactor;
  readonly #env: Environment;
  readonly #envelopes: AcceptedEnvelopes;

  constructor(
    keys: { readonly rsaPrivateKeys: RsaKeys },
    redactor: Redactor,
    {
      env = process.env,
      envelopes = "all",
    }: { readonly env?: Environment; readonly envelopes?: AcceptedEnvelopes } = {},
  ) {
    this.#given = keys;
    this.#redactor = redactor;
    this.#env = env;
    this.#envelopes = envelopes;
  }

  /** Parsed at the first use: it takes milliseconds, and many services have no encrypted parameters. */
  get #keys(): ParsedKeys {
    if (!this.#parsed) {
      const [present, ...former] = this.#given.rsaPrivateKeys;
      const privateKey = createPrivateKey(present);
      const others = former.map((pem) => createPrivateKey(pem));
      this.#parsed = {
        ...{ privateKey, publicKey: createPublicKey(privateKey), former: others },
        all: [privateKey, ...others],
      };
    }
    return this.#parsed;
  }

  /** Whether former keys are read, too. */
  get hasFormerKeys(): boolean {
    return this.#given.rsaPrivateKeys.length > 1;
  }

  /** Names of the keys that are read here, the present one first: nobody can derive a key from its name. */
  keyNames(): readonly string[] {
    this.#names ??= this.#keys.all.map((key) =>
      hash("sha256", createPublicKey(key).export({ type: "spki", format: "der" }), "hex").slice(0, 16),
    );
    return this.#names;
  }

  /** For which key an envelope is, and what replaces it. */
  renew(encrypted: string): Renewal {
    const { privateKey, publicKey, former } = this.#keys;
    return renew(encrypted, { privateKey, publicKey }, former);
  }

  /** PEM, SPKI. */
  publicKeyPem(): string {
    return this.#keys.publicKey.export({ type: "spki", format: "pem" }).toString();
  }

  /** An envelope that this service can decrypt. */
  encrypt(text: string, options: SealOptions = {}): string {
    const envelope = seal(text, this.#keys.publicKey, options);
    this.assertAccepted(envelope);
    return envelope;
  }

  /** Throws `invalid_parameters` if a client's envelope has a version that the service does not accept. */
  assertAccepted(encrypted: string): void {
    if (this.#envelopes === "all" || isAuthenticated(encrypted)) return;
    throw new ServiceError(
      "invalid_parameters",
      "This service accepts only version 2 of encrypted parameters",
      {
        detail:
          "Encrypt them with POST /utils/encrypt, or as docs/security.md describes; they start with v2.",
      },
    );
  }

  /** The decrypted text; throws `invalid_parameters` with the same message whatever the reason. */
  decrypt(encrypted: string, agent?: HostedAgent): string {
    const text = unseal(encrypted, this.#keys.all, agent?.slug);
    if (text === undefined) throw new UnreadableParameters();
    this.#redactor.addPassing(text);
    return text;
  }

  /** Whether an envelope can be opened with the keys of the service. Its content is not kept. */
  canOpen(encrypted: string, agent?: HostedAgent): boolean {
    return unseal(encrypted, this.#keys.all, agent?.slug) !== undefined;
  }

  /**
   * OpenParameters by name, from a list of `{name, value}` or a map. The redactor learns each value, except
   * those of parameters that `agent` declares with `is_secret: false`.
   */
  open(encrypted: string, agent?: HostedAgent): OpenParameters {
    const text = unseal(encrypted, this.#keys.all, agent?.slug);
    const values = text === undefined ? undefined : readValues(text);
    if (!values) throw new UnreadableParameters();
    const open = new Set(
      agent?.definition.parameters?.filter((one) => one.is_secret === false).map((one) => one.name),
    );
    for (const [name, value] of Object.entries(values)) if (!open.has(name)) this.#redactor.addPassing(value);
    return values;
  }

  /**
   * The handler's values: those sent with the job, else from the service's environment if declared so, else
   * the declared value.
   */
  resolve(agent: HostedAgent, encrypted?: string | null): OpenParameters {
    const sent = encrypted ? this.open(encrypted, agent) : {};
    const declared = agent.definition.parameters ?? [];
    if (declared.length === 0) return sent;
    const values = new Map<string, string>();
    for (const parameter of declared) {
      const own = (parameter.is_environment ? this.#env[parameter.name] : undefined) ?? parameter.value;
      if (own === undefined || own === null) continue;
      if (parameter.is_secret !== false) this.#redactor.add(own);
      values.set(parameter.name, own);
    }
    return Object.fromEntries([...values, ...Object.entries(sent)]);
  }

  /** Validates values against the parameters that the agent declares; throws if they cannot be decrypted. */
  validate(agent: HostedAgent, encrypted?: string | null): ParametersCheck {
    const sent = encrypted ? this.open(encrypted, agent) : {};
    const values = this.resolve(agent, encrypted);
    const problems = new Map<string, string>();
    for (const { name, is_required } of agent.definition.parameters ?? []) {
      if (is_required && (values[name] ?? "").trim() === "") problems.set(name, "is required and missing");
    }
    for (const name of undeclared(agent, sent).slice(0, MOST_TOLD)) problems.set(name, notDeclared(agent));
    const errors = [...problems].map(([name, problem]) => describe(name, problem));
    const valid = errors.length === 0;
    return {
      valid,
      message: valid ? "Agent parameters are valid" : "Agent parameters are invalid",
      errors,
      invalid_parameters: Object.fromEntries(problems),
    };
  }
}

/** Throws `invalid_parameters` if values were sent under names that the agent does not declare. */
export function refuseUndeclared(agent: HostedAgent, sent: OpenParameters): void {
  const names = undeclared(agent, sent);
  if (names.length === 0) return;
  const known = (agent.definition.parameters ?? []).map(({ name }) => name);
  const problems = listProblems(names.map((name) => describe(name, notDeclared(agent))));
  throw new ServiceError("invalid_parameters", `Invalid parameters for agent "${agent.slug}"`, {
    detail: `${problems}. It declares ${known.length === 0 ? "none" : known.join(", ")}.`,
  });
}

function undeclared({ definition }: HostedAgent, sent: OpenParameters): string[] {
  const known = new Set(definition.parameters?.map(({ name }) => name));
  return Object.keys(sent).filter((name) => !known.has(name));
}

function notDeclared({ slug }: HostedAgent): string {
  return `is not a parameter of ${slug}`;
}

function describe(name: string, problem: string): string {
  return `Parameter ${name} ${problem}`;
}

function readValues(text: string): OpenParameters | undefined {
  const data = parseJson(text);
  if (typeof data !== "object" || data === null) return undefined;
  if (!Array.isArray(data)) return toValues(Object.entries(data));
  const pairs: [string, unknown][] = [];
  for (const item of data as unknown[]) {
    if (typeof item !== "object" || item === null || !("name" in item)) return undefined;
    if (typeof item.name !== "string") return undefined;
    pairs.push([item.name, "value" in item ? item.value : null]);
  }
  return toValues(pairs);
}

/** Handlers get text, as from the environment; `null` counts as not given. */
function toValues(pairs: readonly (readonly [string, unknown])[]): OpenParameters {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(
    given.map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]),
  );
}
