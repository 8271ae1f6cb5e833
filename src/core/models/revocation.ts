/** Says that tokens of a job no longer count: all that were made so far, or those of one name. */
export interface Revocation {
  /** Of the job and the name. */
  readonly id: string;
  /** Grows with each revocation: tokens that have a lower one in them do not count. */
  readonly mark: number;
  /** When the last of them has long expired, milliseconds since 1970: then this is of no use. */
  readonly until: number;
}
