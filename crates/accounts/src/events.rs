//! Events of an account's members.

use portico_engine::{events, example_id};
use portico_kernel::kind;

events! {
    /// A person was invited to the team.
    MemberInvited = "member.invited" {
        /// The id of the invitation.
        invitation_id: String = "inv_01KN2MGCG0B9D5MPJTB9D5MPJT".to_owned(),
        /// Who invited.
        actor: String = example_id::<kind::Person>().to_string(),
    }
    /// A person joined the team.
    MemberJoined = "member.joined" {
        /// The id of the person.
        user_id: String = example_id::<kind::Person>().to_string(),
        /// Who acted: the person, or whoever added them.
        actor: String = example_id::<kind::Person>().to_string(),
    }
    /// A person was removed from the team.
    MemberRemoved = "member.removed" {
        /// The id of the person.
        user_id: String = example_id::<kind::Person>().to_string(),
        /// Who removed them.
        actor: String = example_id::<kind::Person>().to_string(),
    }
}
