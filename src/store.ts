export type { Person, StoredAccess } from "./core/models/access.ts";
export type { AuditEntry } from "./core/models/audit-entry.ts";
export type { DeletedCase, DeletedJob } from "./core/models/deleted-job.ts";
export type {
  FileChunk,
  FileContent,
  FileName,
  FileOrigin,
  FileRemoval,
  FileTotal,
  FileUpload,
  JobFile,
} from "./core/models/file.ts";
export type {
  AgentSetting,
  AuditHead,
  DamagedJob,
  Instance,
  KeyedJob,
  KeyMark,
  ProbeJob,
  RemovedBatch,
  RetentionState,
  SharedLimit,
} from "./core/models/own-rows.ts";
export type { EventName, EventWait, StoredEvent } from "./core/models/received-event.ts";
export type { ScheduleState } from "./core/models/schedule.ts";
export type { BudgetNotice, Spending } from "./core/models/spending.ts";
export type { StoreSnapshot } from "./core/store/engine/snapshot.ts";
export type * from "./core/store/store.ts";
export { FencedError, StoreConflictError, StoreMissingError } from "./core/store/store.ts";
export type { StoreDriver, StoreDriverOptions } from "./core/store/unstorage-driver.ts";
export { storeDriver } from "./core/store/unstorage-driver.ts";
