import { Socket } from "node:net";

/** Ends all use of the network by what a handler does outside of its steps; the result restores it. */
export function forbidNetwork(): () => void {
  const { connect } = Socket.prototype;
  Socket.prototype.connect = () => {
    throw new Error("There is no network while jobs are checked or replayed");
  };
  return () => {
    Socket.prototype.connect = connect;
  };
}
