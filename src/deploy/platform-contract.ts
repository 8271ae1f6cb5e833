import assert from "node:assert/strict";
import { type NamesOf, refuseUnknown } from "../core/base/refuse-unknown.ts";
import type {
  DeployTarget,
  Platform,
  PlatformSession,
  Release,
  ReleaseSpec,
  SecretValue,
} from "./platform.ts";
import { unreleasedSecrets, withMark } from "./release-mark.ts";
import type { DeployTools } from "./tools.ts";

/** A place to deploy to, new for each case: nothing of the target exists yet. */
export interface PlatformHarness<Flags = Record<string, unknown>> {
  readonly platform: Platform<Flags>;
  readonly target: DeployTarget<Flags>;
  readonly tools: DeployTools;
  /**
   * Option sets to apply one after another, each changing something that the earlier sets left; together with
   * `ways` they cover every option of the platform. If omitted, the case about options is skipped.
   */
  readonly settings?: readonly Partial<Flags>[];
  /** Options that say where or how to deploy, and are not settings of the running service. */
  readonly ways?: readonly string[];
  /** Two different images that run there, by digest. */
  readonly images: readonly [string, string];
  /** External changes made so far; counted by the journal if omitted. */
  changes?(): number;
  close?(): Promise<void> | void;
}

export interface PlatformContractOptions<Flags = Record<string, unknown>> {
  /** The test runner's own `describe` and `it`. */
  describe(name: string, body: () => void): void;
  it(name: string, body: () => Promise<void>, timeout?: number): void;
  setup(): Promise<PlatformHarness<Flags>>;
  /** Milliseconds a case may take. @default 60_000 */
  readonly timeout?: number;
}

const NAMES: NamesOf<PlatformContractOptions> = { describe: true, it: true, setup: true, timeout: true };

interface Case {
  readonly harness: PlatformHarness<never>;
  /** A further session on the target, with these options and no others. */
  connect(flags: object): Promise<PlatformSession>;
  readonly session: PlatformSession;
  readonly spec: ReleaseSpec;
  readonly images: readonly [string, string];
  changes(): number;
  journalled(): string;
}

const SECRET = "contract-secret-value-1";
const NEW_SECRET = "contract-secret-value-2";

/**
 * The suite that every platform passes; it defines what the methods of a session mean.
 *
 * @example
 * platformContract("my platform", { describe, it, setup: async () => ({ platform, target, tools, images }) });
 */
export function platformContract<Flags>(name: string, options: PlatformContractOptions<Flags>): void {
  refuseUnknown(options, NAMES, "platformContract");
  const { describe, it, setup, timeout = 60_000 } = options;

  const behaves = (title: string, body: (at: Case) => Promise<void>) =>
    it(
      title,
      async () => {
        const harness = await setup();
        const counted = countJournal(harness.tools);
        const further: PlatformSession[] = [];
        const session = await harness.platform.connect(harness.target, counted.tools);
        try {
          const spec = firstSpec(harness.target.port, harness.images[0]);
          const changes = () => harness.changes?.() ?? counted.count();
          const connect = async (flags: object) => {
            const target = { ...harness.target, flags: { ...harness.target.flags, ...flags } };
            const opened = await harness.platform.connect(target, counted.tools);
            further.push(opened);
            return opened;
          };
          await body({
            session,
            spec,
            images: harness.images,
            changes,
            journalled: counted.text,
            connect,
            harness: harness as PlatformHarness<never>,
          });
        } finally {
          for (const opened of further) await opened.close?.();
          await session.close?.();
          await harness.close?.();
        }
      },
      timeout,
    );

  describe(`${name}: platform contract`, () => {
    behaves(
      "inspecting an empty target finds nothing and changes nothing",
      async ({ session, spec, changes }) => {
        const findings = await session.preflight();
        const live = await session.inspect();
        const secrets = await session.listSecrets();
        const actions = await session.plan(spec);
        await session.predictUrl?.();

        assert.deepEqual(
          findings.filter((finding) => finding.level === "error"),
          [],
        );
        assert.equal(live, undefined);
        assert.deepEqual(secrets, []);
        assert.ok(
          actions.some((action) => action.resource_type === "service" && action.action_type === "create"),
        );
        assert.equal(changes(), 0, "preflight, inspect, listSecrets, plan and predictUrl must not write");
      },
    );

    behaves("a release runs the given spec", async (at) => {
      const released = await at.session.release(await withSecret(at));
      const live = await settle(at.session, released);

      assert.equal(live?.id, released.id);
      assert.equal(live?.image, at.spec.image);
      assert.equal(live?.env?.GREETING, "hello");
      assert.ok(live?.secretNames?.includes("CONTRACT_SECRET"));
      assert.ok(released.url?.startsWith("http"));
    });

    behaves("the same release again changes nothing", async (at) => {
      const spec = await withSecret(at);
      const first = await settle(at.session, await at.session.release(spec));
      const before = at.changes();

      const again = await at.session.release(spec);
      const actions = await at.session.plan(spec, await at.session.inspect());

      assert.equal(again.revision, first?.revision);
      assert.equal(at.changes(), before);
      assert.deepEqual(
        actions.filter((action) => action.action_type !== "noop"),
        [],
      );
    });

    behaves("a changed variable is the only change planned, and arrives", async (at) => {
      const spec = await withSecret(at);
      await settle(at.session, await at.session.release(spec));
      const changed = { ...spec, env: { ...spec.env, GREETING: "good day" } };

      const actions = await at.session.plan(changed, await at.session.inspect());
      const live = await settle(at.session, await at.session.release(changed));

      const planned = actions.filter((action) => action.action_type !== "noop");
      assert.ok(planned.length > 0, "the change must be planned");
      assert.ok(planned.every((action) => action.action_type === "update"));
      assert.match(JSON.stringify(planned), /GREETING/);
      assert.doesNotMatch(JSON.stringify(planned), /CONTRACT_SECRET/);
      assert.equal(live?.env?.GREETING, "good day");
    });

    behaves("a setting stays unchanged if its option is omitted", async (at) => {
      const { settings, ways = [], platform } = at.harness;
      if (settings === undefined) return;
      const covered = [...settings.flatMap((flags) => Object.keys(flags)), ...ways];
      assert.deepEqual(
        Object.keys(platform.flags.entries).filter((key) => !covered.includes(key)),
        [],
        "options that are neither among the settings nor the ways",
      );
      const spec = await withSecret(at);
      await settle(at.session, await at.session.release(spec));

      for (const flags of settings) {
        const given = await at.connect(flags);
        const asked = await given.plan(spec, await given.inspect());
        const set = await settle(given, await given.release(spec));
        const before = at.changes();
        const plain = await at.connect({});
        const planned = await plain.plan(spec, set);
        const kept = await settle(plain, await plain.release(spec));

        const label = JSON.stringify(flags);
        const changed = (actions: typeof asked) => actions.filter((action) => action.action_type !== "noop");
        assert.notDeepEqual(changed(asked), [], `${label} must be planned as a change`);
        assert.deepEqual(changed(planned), [], `without ${label} nothing must change`);
        assert.equal(at.changes(), before, `without ${label} nothing must be written`);
        assert.deepEqual(kept?.resources, set?.resources);
      }
    });

    behaves("a rollback restores the earlier release, and a new one replaces it again", async (at) => {
      const spec = await withSecret(at);
      const first = await settle(at.session, await at.session.release(spec));
      assert.ok(first);
      const second = { ...spec, image: at.images[1], imageTag: "two", env: { GREETING: "second" } };
      await settle(at.session, await at.session.release(second));

      await at.session.rollback(first);
      const back = await at.session.inspect();
      const forth = await settle(at.session, await at.session.release(second));

      assert.equal(back?.image, at.images[0]);
      assert.equal(back?.env?.GREETING, "hello");
      assert.equal(forth?.image, at.images[1]);
      assert.equal(forth?.env?.GREETING, "second");
    });

    behaves("a release without traffic gets none after another release replaced it", async (at) => {
      const { session, spec } = at;
      await settle(session, await session.release(spec));
      const mine = await session.release({ ...spec, image: at.images[1], imageTag: "two" });
      if (!mine.noTraffic) return;
      const other = { ...spec, imageTag: "three", env: { GREETING: "not checked" } };
      await session.release(other);

      await session.promote?.(mine).catch(() => undefined);

      assert.notEqual((await session.inspect())?.env?.GREETING, "not checked");
    });

    behaves("secrets are stored, replaced, listed and removed, and never shown", async (at) => {
      const { session } = at;
      const first = await session.putSecrets({ CONTRACT_SECRET: secretOf(SECRET) });
      const second = await session.putSecrets({ CONTRACT_SECRET: secretOf(NEW_SECRET) });
      const released = await session.release({
        ...at.spec,
        secrets: second,
        secretHashes: hashes(NEW_SECRET),
      });
      const listed = await session.listSecrets();
      const seen = JSON.stringify([first, released, listed, await session.inspect(), at.journalled()]);
      await session.remove();
      await session.dropSecrets(["CONTRACT_SECRET"]);

      assert.equal(second.CONTRACT_SECRET?.name, "CONTRACT_SECRET");
      assert.deepEqual(
        listed.map((secret) => secret.name),
        ["CONTRACT_SECRET"],
      );
      assert.doesNotMatch(seen, /contract-secret-value/);
      assert.deepEqual(await session.listSecrets(), []);
    });

    behaves(
      "another value of a secret has another reference, and what runs shows which one it has",
      async (at) => {
        const { session } = at;
        const spec = await withSecret(at);
        const before = await settle(session, await session.release(withMark(spec)));
        const known = await session.listSecrets();
        const second = await session.putSecrets({ CONTRACT_SECRET: secretOf(NEW_SECRET) });
        // A run that was killed here leaves no more than this to the next one.
        const next = await at.connect({});
        const [stored] = await next.listSecrets();
        const between = await next.inspect();
        const changed = { ...spec, secrets: second, secretHashes: hashes(NEW_SECRET) };
        const after = await settle(session, await session.release(withMark(changed)));

        assert.notEqual(second.CONTRACT_SECRET?.ref, spec.secrets.CONTRACT_SECRET?.ref);
        assert.deepEqual(
          unreleasedSecrets(before, known),
          [],
          "a released secret must not count as unreleased",
        );
        const isStoredAgain = stored?.hash === hashes(SECRET).CONTRACT_SECRET;
        assert.ok(
          isStoredAgain || (stored && unreleasedSecrets(between, [stored]).includes("CONTRACT_SECRET")),
          "inspect must report in `secrets` the references that the running release has, or its variable SVC_RELEASE in `env`: a new value that is stored and not released would be forgotten",
        );
        assert.notEqual(after?.revision, before?.revision, "another value of a secret is another release");
        assert.deepEqual(unreleasedSecrets(after, await session.listSecrets()), []);
      },
    );

    behaves("after a removal nothing is left, and removing again succeeds", async (at) => {
      await settle(at.session, await at.session.release(await withSecret(at)));

      await at.session.scaleToZero();
      await at.session.remove();
      await at.session.remove();

      assert.equal(await at.session.inspect(), undefined);
    });

    behaves("every change is announced in the journal", async (at) => {
      const { session } = at;
      await session.release(await withSecret(at));

      assert.ok(at.journalled().length > 0, "release and putSecrets must go through tools.journal");
    });
  });
}

function firstSpec(port: number, image: string): ReleaseSpec {
  return {
    image,
    imageTag: "one",
    port,
    env: { GREETING: "hello" },
    secrets: {},
    secretHashes: {},
    publicUrl: undefined,
    healthPath: "/.well-known/health",
  };
}

async function withSecret({ session, spec }: Case): Promise<ReleaseSpec> {
  await session.prepare?.();
  const secrets = await session.putSecrets({ CONTRACT_SECRET: secretOf(SECRET) });
  return { ...spec, secrets, secretHashes: hashes(SECRET) };
}

function secretOf(value: string): SecretValue {
  return { value, hash: hashes(value).CONTRACT_SECRET ?? "" };
}

function hashes(value: string): Record<string, string> {
  return { CONTRACT_SECRET: value === SECRET ? "hash-of-one" : "hash-of-two" };
}

async function settle(session: PlatformSession, release: Release): Promise<Release | undefined> {
  if (release.noTraffic) await session.promote?.(release);
  return session.inspect();
}

function countJournal(tools: DeployTools) {
  const steps: string[] = [];
  const counting: DeployTools = Object.create(tools, {
    journal: {
      value: (step: Parameters<DeployTools["journal"]>[0], call: Parameters<DeployTools["journal"]>[1]) => {
        steps.push(JSON.stringify(step));
        return tools.journal(step, call);
      },
    },
  });
  return { tools: counting, count: () => steps.length, text: () => steps.join("\n") };
}
