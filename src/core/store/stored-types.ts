import type { Person, StoredAccess } from "../models/access.ts";
import type { AuditEntry } from "../models/audit-entry.ts";
import type { StoredCase } from "../models/case.ts";
import type { CaseNodeUpdate } from "../models/case-node-update.ts";
import type { DeletedCase, DeletedJob } from "../models/deleted-job.ts";
import type { FileContent, FileRemoval, FileTotal, FileUpload, JobFile, JobResult } from "../models/file.ts";
import type { StoredJob } from "../models/job.ts";
import type { KeyedRequest } from "../models/keyed-request.ts";
import type { ModelUse } from "../models/model-use.ts";
import type {
  AgentSetting,
  AuditHead,
  CheckedCode,
  DamagedJob,
  FailureMark,
  Instance,
  KeyedJob,
  KeyMark,
  ProbeJob,
  RetentionState,
  SharedLimit,
} from "../models/own-rows.ts";
import type { EventName, EventWait, StoredEvent } from "../models/received-event.ts";
import type { Revocation } from "../models/revocation.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { ScheduleState } from "../models/schedule.ts";
import type { ShownQuestion } from "../models/shown-question.ts";
import type { SigningKey } from "../models/signing-key.ts";
import type { BudgetNotice, Spending, WorkspaceSpending } from "../models/spending.ts";

/** Rows by table name. A plugin with its own table extends it by declaration merging. */
export interface Tables {
  Job: StoredJob;
  Access: StoredAccess;
  Person: Person;
  DamagedJob: DamagedJob;
  Case: StoredCase;
  DeletedJob: DeletedJob;
  DeletedCase: DeletedCase;
  AgentSetting: AgentSetting;
  Retention: RetentionState;
  AuditHead: AuditHead;
  KeyMark: KeyMark;
  SigningKey: SigningKey;
  IdempotencyKey: KeyedJob;
  KeyedRequest: KeyedRequest;
  ShownQuestion: ShownQuestion;
  Schedule: ScheduleState;
  ReceivedEvent: StoredEvent;
  EventName: EventName;
  EventWait: EventWait;
  Instance: Instance;
  Probe: ProbeJob;
  SharedLimit: SharedLimit;
  ModelUse: ModelUse;
  Spending: Spending;
  WorkspaceSpending: WorkspaceSpending;
  BudgetNotice: BudgetNotice;
  FailureMark: FailureMark;
  CheckedCode: CheckedCode;
  FileContent: FileContent;
  FileUpload: FileUpload;
  JobFile: JobFile;
  JobResult: JobResult;
  FileTotal: FileTotal;
  FileRemoval: FileRemoval;
  Revocation: Revocation;
}
export type TableName = keyof Tables & string;

/** Entries by log name. A plugin with its own log extends it by declaration merging. */
export interface Logs {
  /** The run log of a job, by its id. */
  Run: RunEntry;
  Audit: AuditEntry;
  /** The history of a case, by its id. */
  CaseUpdate: CaseNodeUpdate;
}
export type LogName = keyof Logs & string;
