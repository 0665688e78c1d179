pub use trunnion_features as features;
