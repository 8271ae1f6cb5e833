import { type LockPlace, remoteLock } from "../../../deploy/remote-lock.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import type { AwsContext } from "./aws-context.ts";
import { isDenied } from "./denied.ts";
import { type AwsTag, tagMap, tagsOf } from "./tags.ts";

const MISSING = /RepositoryNotFoundException/;
/** Tags hold 256 characters each. */
const PIECE = 240;
const KEY = "svc-lock-";
/** Who was alive until when. It counts only for the lock of this very run: a write that comes late changes no other one. */
const ALIVE = "svc-alive";
const GATE = 10 * 60_000;

/** The lock of a target for all machines. */
export function lockOf(context: AwsContext) {
  return remoteLock(lockPlace(context), context.tools, isDenied);
}

/**
 * The lock of a target: an empty repository beside that of its images, as ECR creates a name only once and removes it
 * immediately. It is there only while a command runs; its tags say who holds it.
 */
function lockPlace({ aws, target, identity, tools }: AwsContext): LockPlace {
  const repositoryName = `${target.serviceName}.lock`;
  const resourceArn = `arn:${identity.partition}:ecr:${target.region}:${identity.account}:repository/${repositoryName}`;
  const read = async () => {
    const found = await aws.find<{ tags?: AwsTag[] }>("ecr", "ListTagsForResource", { resourceArn }, MISSING);
    if (found === undefined) return undefined;
    const text = renewedText(found.tags);
    return { text, version: text };
  };
  const create = async (name: string, text: string): Promise<boolean> => {
    try {
      await aws.send(
        "ecr",
        "CreateRepository",
        { repositoryName: name, tags: [...tagsOf(target), ...toTags(text)] },
        {
          reread: async () => {
            const found = name === repositoryName ? await read() : undefined;
            return found?.text === text ? {} : undefined;
          },
        },
      );
      return true;
    } catch (error) {
      if (error instanceof CloudError && error.code === "RepositoryAlreadyExistsException") return false;
      throw error;
    }
  };
  const drop = (name: string) => aws.find("ecr", "DeleteRepository", { repositoryName: name }, MISSING);
  return {
    create: (text) => create(repositoryName, text),
    read,
    async renew(_, text) {
      const { id, alive } = JSON.parse(text) as { id: string; alive?: string };
      const tags = [{ Key: ALIVE, Value: `${id} ${alive}` }];
      if ((await aws.find("ecr", "TagResource", { resourceArn, tags }, MISSING)) === undefined) return false;
      // Registries have no conditional write: a run that has replaced the lock in the meantime is seen now.
      return idOf((await read())?.text ?? "") === idOf(text);
    },
    async remove(version, isOwn) {
      if (isOwn) return void (await drop(repositoryName));
      // Of several callers that found the same lock, one may remove it: the others would remove the next one.
      // The gate of a killed run is in the way for its time only.
      const turn = Math.floor(tools.now().getTime() / GATE);
      const gate = `${repositoryName}-${idOf(version)}-${turn}`;
      if (!(await create(gate, ""))) return;
      try {
        if ((await read())?.version === version) await drop(repositoryName);
      } finally {
        await drop(gate);
      }
    },
  };
}

/** The text as tags: their characters are limited too. */
function toTags(text: string): AwsTag[] {
  const coded = Buffer.from(text).toString("base64");
  const count = Math.ceil(coded.length / PIECE);
  return Array.from({ length: count }, (_, index) => ({
    Key: `${KEY}${index}`,
    Value: coded.slice(index * PIECE, (index + 1) * PIECE),
  }));
}

function toText(tags: readonly AwsTag[] = []): string {
  const map = tagMap(tags);
  let coded = "";
  for (let index = 0; map[`${KEY}${index}`] !== undefined; index++) coded += map[`${KEY}${index}`];
  return Buffer.from(coded, "base64").toString("utf8");
}

/** The text of the lock, with the last sign of life of its own run. */
function renewedText(tags: readonly AwsTag[] = []): string {
  const text = toText(tags);
  const [id, alive] = tagMap(tags)[ALIVE]?.split(" ") ?? [];
  if (alive === undefined || id?.toLowerCase() !== idOf(text)) return text;
  return JSON.stringify({ ...(JSON.parse(text) as object), alive });
}

/** A name for this lock alone. */
function idOf(text: string): string {
  const id = /"id":"([A-Za-z0-9-]+)"/.exec(text)?.[1] ?? "unknown";
  return id.toLowerCase();
}
