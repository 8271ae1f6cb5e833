import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { StoreIo } from "../../storage/file-io.ts";
import { nodeIo } from "../../storage/node-io.ts";
import { createStoreTables, type TransactionalStore } from "../engine/transactional-store.ts";
import { refuseIncomplete } from "../json/incomplete.ts";
import { type JsonBackend, openBackend } from "../json/json-backend.ts";
import { toBackendOptions } from "../json/json-store.ts";
import type { Owner } from "../json/manifest.ts";
import { nodeTimers } from "../json/timers.ts";
import { storageError } from "../storage-error.ts";
import type { ShippingHealth } from "../store.ts";
import { BaseWriter } from "./base-writer.ts";
import type { BucketStoreOptions } from "./bucket-store-options.ts";
import type { Taken } from "./chain.ts";
import { EndedStore } from "./ended-store.ts";
import { refuseClosed } from "./mark.ts";
import { restoreFolder } from "./restore.ts";
import type { Objects } from "./sealed.ts";
import { ShippedFolder } from "./shipped-folder.ts";
import { Shipper } from "./shipper.ts";
import { isOwn, type Shipping, ShippingRecord } from "./shipping-record.ts";
import { showMarks } from "./shown-marks.ts";
import { liveAsOwner, type OwnerMark, readOwner, takeOver } from "./take-over.ts";

export interface DiskStoreOptions extends Omit<BucketStoreOptions, "mayTake"> {
  readonly mayTake: () => Promise<void>;
  /** @default the file system of this machine */
  readonly io?: StoreIo | undefined;
  /** Milliseconds that groups wait for others before they are shipped. @default 700 */
  readonly linger?: number | undefined;
  /** Bytes of groups that wait in memory before the files are shipped instead. @default 16 MiB */
  readonly memory?: number | undefined;
  /** Whose folder it was before, on this disk. */
  readonly note: (token: string) => void;
}

/**
 * Opens the store in a locked data folder, which acknowledges what is on its disk and ships it to a storage. On a blank disk
 * the store is restored from the storage. Where another instance has taken over since, what was not shipped is set aside.
 */
export async function openDiskStore(
  options: DiskStoreOptions,
  release: () => Promise<void>,
): Promise<TransactionalStore> {
  const { dataDir, log, objects, timers = nodeTimers, io = nodeIo } = options;
  refuseIncomplete(io, dataDir);
  const folder = new ShippedFolder(io, dataDir);
  const record = new ShippingRecord(io, dataDir);
  if (record.value.doing !== undefined) await finish(folder, record);
  let hasStore = folder.hasStore;
  if (hasStore) refuseOther(await readOwner(objects), record.value);
  // Later owners with its id are then known to be this folder.
  if (!ShippingRecord.isIn(io, dataDir)) await record.write(record.value);
  await options.mayTake();

  const by: Owner = { token: randomBytes(12).toString("hex"), host: hostname(), pid: process.pid };
  await refuseClosed(objects);
  const previous = await readOwner(objects);
  const token = () => `${record.value.folder}${randomBytes(8).toString("hex")}`;
  const { chain, taken } = await takeOver(objects, { by, durability: "disk", token });
  await refuseClosed(objects);
  options.note(by.token);
  let shipped = hasStore ? shippedTo(record.value, taken) : undefined;
  if (hasStore && shipped === undefined) {
    await giveWay({ folder, record, taken, log });
    hasStore = false;
  }
  let restored: ShippingHealth["restored"] = null;
  const tables = createStoreTables(options.tables);
  let bases: BaseWriter | undefined;
  let shipper: Shipper;
  let backend: JsonBackend;
  for (;;) {
    if (!hasStore) restored = await restore({ folder, record, objects, taken, previous, log });
    shipper = new Shipper({
      ...{ ...options, chain, record, timers, log, restored, store: taken.store, at: asOf(taken) },
      room: () => bases?.room(),
      onGroup: (bytes) => bases?.note(bytes),
      setAside: () => folder.aside(),
    });
    const parts = toBackendOptions({ ...options, io, timers, lock: false });
    backend = await openBackend(tables, { ...parts, remote: shipper });
    if (shipped === undefined || backend.last >= shipped) break;
    log.warn("Store: the disk has less than the storage has of it; it is restored from the storage");
    await backend.close();
    [hasStore, shipped] = [false, undefined];
  }
  const pin = async <T>(note: () => T) => {
    const { files, noted } = await backend.pin(() => ({ last: backend.last, noted: note() }));
    return { files, ...noted };
  };
  const writer = new BaseWriter({
    ...{ objects, chain, log, taken, groups: options.groupsPerBase, isRestored: restored !== null },
    pin: async () => {
      const { files, noted } = await pin(() => shipper.upTo(backend.last));
      try {
        return { files, ...(await noted) };
      } catch (error) {
        for (const file of files) file.release();
        throw error;
      }
    },
  });
  bases = writer;
  shipped ??= backend.last;
  if (record.value.doing !== undefined || record.value.store !== taken.store)
    await record.write({ store: taken.store, shipped: { slot: chain.slot, last: shipped } });
  if (backend.last > shipped)
    log.info("Store: this disk has writes that are not in the storage yet; they are shipped");
  shipper.start(
    { pin, replace: (pinned, append) => writer.replace(pinned, append) },
    { shipped, last: backend.last },
  );
  const life = liveAsOwner({ objects, chain, timers, journal: shipper });
  return new EndedStore({
    ...{ backend, tables, contents: options.contents },
    showMarks: (marks) => showMarks(objects, marks),
    closed: async () => {
      await writer.close();
      await life.end(shipper.isDone);
      await release();
    },
  });
}

/** Finishes what an earlier start was doing. */
async function finish(folder: ShippedFolder, record: ShippingRecord): Promise<void> {
  const { doing } = record.value;
  if (typeof doing === "object") {
    await folder.moveInto(doing.aside);
    await record.write({ ...record.value, doing: "restore" });
  }
  await folder.clear();
}

/** Refuses a storage that has another store, before that one loses its owner. */
function refuseOther({ owner }: { owner: OwnerMark | undefined }, { folder, store }: Shipping): void {
  if (owner === undefined || isOwn(owner.epoch, folder)) return;
  if (store === undefined || (owner.store !== undefined && owner.store !== store)) throw otherStoreError();
}

function otherStoreError(): Error {
  return storageError(
    "The data folder has a store, and the storage has another one: neither may replace the other",
    "Use another storage or prefix, which is empty, to ship the store in the data folder; or move the data folder away to restore the one in the storage.",
  );
}

/**
 * Number of the last write of this folder's store that the storage has, if nobody else has been its owner since;
 * `undefined` if somebody has.
 */
export function shippedTo(record: Shipping, { base, groups, entries, store }: Taken): number | undefined {
  const isEmpty = base === undefined && groups.length === 0;
  if (record.store !== store) {
    if (isEmpty) return 0;
    throw otherStoreError();
  }
  const { folder, shipped, sent } = record;
  const end = Math.max(base?.slot ?? 0, ...entries.map(({ slot }) => slot));
  if (end < shipped.slot) {
    throw storageError(
      `The storage lacks what it has confirmed: its journal ends at slot ${end}, and slot ${shipped.slot} was stored`,
      "Restore the storage; or use another one, or another prefix, which is empty: the service then ships everything that is in the data folder.",
    );
  }
  let last = shipped.last;
  if (base !== undefined && base.slot > shipped.slot) {
    if (base.slot !== sent?.slot || !isOwn(base.epoch, folder)) return undefined;
    last = sent.last;
  }
  for (const entry of entries) {
    if (entry.slot <= Math.max(shipped.slot, base?.slot ?? 0)) continue;
    if (!isOwn(entry.epoch, folder)) return undefined;
    if (entry.kind === "owner") continue;
    if (entry.slot !== sent?.slot || entry.crc !== sent.crc) return undefined;
    last = sent.last;
  }
  return last;
}

interface Found {
  readonly folder: ShippedFolder;
  readonly record: ShippingRecord;
  readonly taken: Taken;
  readonly log: DiskStoreOptions["log"];
}

/** Another instance has continued the store: what this folder has besides is set aside. */
async function giveWay({ folder, record, taken, log }: Found): Promise<void> {
  const { shipped, sent } = record.value;
  const isSent = taken.entries.some(({ slot, crc }) => slot === sent?.slot && crc === sent.crc);
  const known = isSent ? sent!.last : shipped.last;
  const last = await folder.lastWrite();
  // The storage has all of it.
  if (last <= known) return;
  const aside = ShippedFolder.asideName(new Date());
  await record.write({ ...record.value, doing: { aside } });
  await finish(folder, record);
  log.error(
    "Store: another instance took over before everything on this disk was in the storage: it is set aside, and not used",
    { folder: `${folder.path}/${aside}`, writes: last - known },
  );
}

/** Restores the store from the storage into a folder without one; resolves with what it may lack. */
async function restore({
  folder,
  record,
  objects,
  taken,
  previous: { owner, isReleased },
  log,
}: Found & {
  objects: Objects;
  previous: Awaited<ReturnType<typeof readOwner>>;
}): Promise<ShippingHealth["restored"]> {
  await record.write({ ...record.value, doing: "restore" });
  await finish(folder, record);
  await restoreFolder(objects, folder.path, taken);
  await folder.sync();
  return describeRestore({ taken, owner, isReleased, log });
}

/** Says what a restored store may lack. `null` if there was nothing to restore. */
export function describeRestore({
  taken,
  owner,
  isReleased,
  log,
}: {
  taken: Taken;
  owner: OwnerMark | undefined;
  isReleased: boolean;
  log: DiskStoreOptions["log"];
}): ShippingHealth["restored"] {
  if (taken.base === undefined && taken.groups.length === 0) return null;
  const as_of = asOf(taken) ?? null;
  const may_lack = owner?.durability === "disk" && !isReleased;
  const who = owner?.by && { host: owner.by.host, pid: owner.by.pid };
  if (may_lack)
    log.warn(
      "Store: restored from the storage. What another process acknowledged on its disk after this time may be missing",
      { as_of, ...who },
    );
  else log.info("Store: restored from the storage, with everything that was acknowledged", { as_of });
  return { as_of, may_lack };
}

function asOf({ base, entries }: Taken): string | undefined {
  const last = entries.findLast(({ kind }) => kind !== "owner");
  return last === undefined ? base?.at : last.at;
}
